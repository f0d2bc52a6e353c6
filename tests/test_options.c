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
                                [OPTION_LIST] = sizeof(struct index_list)};

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
            assert_int_equal(option->offset % (option->type == OPTION_CHOICE ? sizeof(int) : sizeof(size_t)), 0);
            for (const struct option *other = table->rows; other < option; other++) {
                assert_true(other->offset + widths[other->type] <= option->offset ||
                            option->offset + widths[option->type] <= other->offset);
            }
            while (option->choices && option->choices[choices])
                choices++;
            assert_true(option->type == OPTION_CHOICE ? option->initial < (double)choices : !option->choices);
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
        const char *method, *choices[4];
    } cases[] = {{"checkpoint", {"none", "inputs"}},
                 {"streambp", {"none", "inputs", "inputs+gradient"}},
                 {"seco", {"none", "kv"}},
                 {"spaco", {"none", "kv"}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct option *option = option_find(&method_find(cases[i].method)->options, "offload");
        for (size_t c = 0; c == 0 || cases[i].choices[c - 1]; c++) {
            assert_int_equal(option->choices[c] != NULL, cases[i].choices[c] != NULL);
            assert_true(!option->choices[c] || strcmp(option->choices[c], cases[i].choices[c]) == 0);
        }
    }
}

struct example {
    size_t count;
    double number;
    int choice;
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
        {"colour", "1"}, {"count", ""},   {"count", "0"},      {"count", "10"}, {"count", "3 "}, {"number", "half"},
        {"number", "2"}, {"number", ""},  {"choice", "black"}, {"choice", "1"}, {"list", "1;2"}, {"list", "8"},
        {"list", "a"},   {"count", "-1"}, {"number", "-1"},    {"list", "1,,2"}};
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
