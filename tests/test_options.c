// Options of methods: every method's table is sound, options are made, copied, set and read through it alone, and
// those of one name mean the same to every method.
#include "methods/method.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const size_t widths[] = {[OPTION_COUNT] = sizeof(size_t),
                                [OPTION_NUMBER] = sizeof(double),
                                [OPTION_CHOICE] = sizeof(int),
                                [OPTION_LIST] = sizeof(struct index_list),
                                [OPTION_WORDS] = sizeof(unsigned)};

static void test_tables_are_sound(void **state)
{
    (void)state;
    for (const struct method *const *m = methods; *m; m++) {
        const struct option_table *table = &(*m)->options;
        for (const struct option *option = table->rows; option->name; option++) {
            size_t choices = 0;
            assert_ptr_equal(option_find(table, option->name), option); // no name twice
            assert_non_null(option->help);
            assert_true(option->offset + widths[option->type] <= table->bytes);
            assert_int_equal(option->offset % (option->choices ? sizeof(int) : sizeof(size_t)), 0);
            for (const struct option *other = table->rows; other < option; other++) {
                assert_true(other->offset + widths[other->type] <= option->offset ||
                            option->offset + widths[option->type] <= other->offset);
            }
            while (option->choices && option->choices[choices])
                choices++;
            bool named = option->type == OPTION_CHOICE || option->type == OPTION_WORDS;
            assert_true(named ? option->initial < (double)choices : !option->choices);
            assert_true(option->type != OPTION_COUNT || option->maximum > 0);
        }
    }
}

// One help text for the flag of the command line, and one meaning in a spec's axes and in labels.
static void test_a_name_means_one_thing(void **state)
{
    (void)state;
    size_t count = 0, rows = 0;
    for (const struct option *option; (option = methods_option(count)); count++) {
        assert_ptr_equal(methods_option_find(option->name), option);
        for (const struct method *const *m = methods; *m; m++) {
            const struct option *own = option_find(&(*m)->options, option->name);
            if (own) {
                rows++;
                assert_int_equal(own->type, option->type);
                assert_int_equal(own->telling, option->telling);
                assert_string_equal(own->help, option->help);
            }
        }
    }
    for (const struct method *const *m = methods; *m; m++)
        for (const struct option *option = (*m)->options.rows; option->name; option++)
            rows--;
    assert_int_equal(rows, 0); // every row is that of one of the names
    assert_null(methods_option_find("colour"));
}

// A method offers offload only of tensors that it keeps.
static void test_each_method_has_its_own_choices(void **state)
{
    (void)state;
    static const struct {
        const char *method, *own[3];
        unsigned bits[2];
    } cases[] = {{"full", {NULL}, {0}},
                 {"checkpoint", {"inputs"}, {OFFLOAD_INPUTS}},
                 {"streambp", {"inputs", "input_gradients"}, {OFFLOAD_INPUTS, OFFLOAD_INPUT_GRADIENTS}},
                 {"seco", {"kv"}, {OFFLOAD_KV}},
                 {"spaco", {"kv"}, {OFFLOAD_KV}},
                 {"deferred", {"kv"}, {OFFLOAD_KV}}};
    static const char *const shared[] = {"weights", "gradients", "optimizer"};
    static const unsigned bits[] = {OFFLOAD_WEIGHTS, OFFLOAD_GRADIENTS, OFFLOAD_OPTIMIZER};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct option_table *table = &method_find(cases[i].method)->options;
        void *options = options_new(table);
        for (size_t w = 0; w < 3 || cases[i].own[w - 3]; w++) {
            assert_true(options_set(table, options, "offload", w < 3 ? shared[w] : cases[i].own[w - 3]));
            assert_int_equal(options_words(table, options, "offload"), w < 3 ? bits[w] : cases[i].bits[w - 3]);
        }
        for (size_t other = 0; other < sizeof cases / sizeof *cases; other++)
            for (size_t w = 0; cases[other].own[w]; w++) {
                bool own = cases[i].own[0] && strcmp(cases[i].own[0], cases[other].own[w]) == 0;
                own |= cases[i].own[0] && cases[i].own[1] && strcmp(cases[i].own[1], cases[other].own[w]) == 0;
                assert_int_equal(options_set(table, options, "offload", cases[other].own[w]), own);
            }
        options_free(table, options);
    }
}

struct example {
    size_t count;
    double number;
    int choice;
    unsigned words;
    struct index_list list;
};
#define AT(member) offsetof(struct example, member)
static const struct option rows[] = {
    {.name = "count", .type = OPTION_COUNT, .offset = AT(count), .minimum = 1, .maximum = 9, .initial = 4},
    {.name = "number", .type = OPTION_NUMBER, .offset = AT(number), .maximum = 1, .initial = 0.5},
    {.name = "choice",
     .type = OPTION_CHOICE,
     .offset = AT(choice),
     .initial = 1,
     .choices = OPTION_CHOICES("red", "green")},
    {OPTION("words", WORDS, struct example, words), .choices = OPTION_CHOICES("red", "redder")},
    {.name = "list", .type = OPTION_LIST, .offset = AT(list), .maximum = 7},
    {0}};
static const struct option_table example = {rows, sizeof(struct example)};

static void test_values(void **state)
{
    (void)state;
    struct example *options = options_new(&example);
    assert_int_equal(options->count, 4);
    assert_true(options->number == 0.5);
    assert_int_equal(options->choice, 1);
    assert_int_equal(options->list.count, 0);
    assert_true(options_set(&example, options, "count", "9") && options->count == 9);
    assert_true(options_set(&example, options, "number", "0.25") && options->number == 0.25);
    assert_true(options_set(&example, options, "choice", "red") && options->choice == 0);
    assert_true(options_set(&example, options, "words", "redder") && options->words == 2);
    assert_int_equal(options_words(&example, options, "words"), 2);
    assert_int_equal(options_words(&example, options, "choice"), 0);
    assert_true(options_set(&example, options, "words", "redder,red") && options->words == 3);
    assert_true(options_set(&example, options, "words", "none") && options->words == 0);
    assert_false(options_set(&example, options, "words", ""));
    assert_false(options_set(&example, options, "words", "none,"));
    assert_true(options_set(&example, options, "list", "1,7") && options->list.count == 2);
    assert_int_equal(options->list.items[1], 7);
    assert_int_equal(options_count(&example, options, "count", 5), 9);
    assert_int_equal(options_count(&example, options, "colour", 5), 5);
    assert_int_equal(options_count(&example, options, "choice", 5), 5); // none of OPTION_COUNT

    struct example *copy = options_copy(&example, options);
    assert_memory_equal(copy, options, offsetof(struct example, list));
    assert_true(index_list_equal(&copy->list, &options->list) && copy->list.items != options->list.items);
    options_free(&example, options);
    assert_int_equal(copy->list.items[0], 1);
    options_free(&example, copy);
    options_free(&example, NULL);
}

static void test_bad_values(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"colour", "1"},    {"count", ""},   {"count", "0"},       {"count", "10"},          {"count", "3 "},
        {"number", "half"}, {"number", "2"}, {"number", ""},       {"choice", "black"},      {"choice", "1"},
        {"list", "1;2"},    {"list", "8"},   {"list", "a"},        {"count", "-1"},          {"number", "-1"},
        {"list", "1,,2"},   {"words", "re"}, {"words", "red,red"}, {"words", "red,,redder"}, {"words", "none,red"}};
    struct example *options = options_new(&example);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (options_set(&example, options, bad[i][0], bad[i][1]))
            fail_msg("%s=%s was taken", bad[i][0], bad[i][1]);
    options_free(&example, options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_are_sound),
        cmocka_unit_test(test_a_name_means_one_thing),
        cmocka_unit_test(test_each_method_has_its_own_choices),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_bad_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
