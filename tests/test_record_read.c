// Tests of harness/record/record_read: a record by its own schema, and every violation of it, reported by its key;
// read values are those of the line's JSON.
#include "harness/record/record_json.h"
#include "harness/record/record_read.h"
#include "kernels/base/random.h"
#include "tests/golden.h"
#include "tests/quoted.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define ID "0123456789abcdef0123456789abcdef"
#define TRIAL(more)                                                                                                \
    "'trial': {'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 8, 'method': {'name': 'full'}" more "}"
#define RECORD(more) "{'schema': 2, 'id': '" ID "', 'experiment': 'e', 'status': 'ok', " more "}"

static bool check(const char *text, struct status *status)
{
    char *json = quoted(text);
    struct record record;
    struct interned interned = {0};
    bool good = record_read(&record, json, strlen(json), &interned, "r:7", status);
    interned_free(&interned);
    free(json);
    return good;
}

static void expect_good(const char *text)
{
    struct status status = {0};
    if (!check(text, &status))
        fail_msg("%s\n%s", status.message, text);
    assert_int_equal(status.code, STATUS_OK);
}

static void a_record_may_be_short_or_null(void **state)
{
    (void)state;
    expect_good(RECORD(TRIAL("")));
    expect_good(RECORD(TRIAL(", 'row_weights': null"))); // a key that there is no more
    expect_good(RECORD(TRIAL("") ", 'round': 1000"));
    expect_good(RECORD(TRIAL(
        ", 'labels': null, 'lora': {'rank': 2}, 'limits': {'memory': null}") ", 'loss': null, 'peak_bytes': null, "
                                                                             "'peak_by_category': null, "
                                                                             "'samples_ms': [], 'gradient': null"));
    expect_good(RECORD(TRIAL("") ", 'samples_ms': [0.5, 3], 'peak_by_category': {'weights': 0, 'workspace': 7}, "
                                 "'categories': {'step_ms': 1.5, 'roofline': null, 'rows': []}, "
                                 "'gradient': {'cosine': -1, 'decimals': -2.5, 'hash': '0123456789abcdef', "
                                 "'tensors': {'w': {'max_abs': 0, 'hash': 'fedcba9876543210'}}}"));
}

static void samples_have_their_chunks(void **state)
{
    (void)state;
    expect_good(RECORD(TRIAL("") ", 'samples_ms': [0.5, 3], 'sample_chunks': [0, 2], 'mean_ms': 1.75, "
                                 "'mean_error_ms': null"));
    expect_good(RECORD(TRIAL("") ", 'samples_ms': [], 'sample_chunks': [1, 2, 3], 'estimate_ms': 7")); // a plan's
    expect_good(RECORD(TRIAL("") ", 'samples_ms': [1, 2], 'slowdown': [3, 0.5]"));
}

static void answer(FILE *out, const char *input)
{
    static const char *const forms[][2] = {
        {"with ", RECORD(TRIAL("") ", %s")},
        {"trial ", RECORD(TRIAL(", %s"))},
        {"record ", "%s"},
    };
    size_t form = 0;
    while (form < COUNT(forms) && strncmp(input, forms[form][0], strlen(forms[form][0])) != 0)
        form++;
    if (form == COUNT(forms))
        fail_msg("unknown form: %s", input);
    char *format = quoted(forms[form][1]), *at = strstr(format, "%s"), text[1000];
    assert_true(snprintf(text, sizeof text, "%.*s%s%s", (int)(at - format), format, input + strlen(forms[form][0]),
                         at + 2) < (int)sizeof text);
    struct status status = {0};
    if (check(text, &status) || status.code != STATUS_BAD_INPUT)
        fail_msg("accepted: %s", text);
    fputs(status.message, out);
    free(format);
}

static void bad_records_are_refused(void **state)
{
    (void)state;
    golden_hold(answer);
}

// Records in another form than ours: with letters beyond ASCII, escapes, and numbers near the largest.
static void texts_and_numbers_may_be_any_of_json(void **state)
{
    (void)state;
    static const char *const good[] = {"'curve': {'loss': [null, 1], 'gradient_norm': [2, null]}",
                                       "'reason': '\xc3\xa9'",
                                       "'reason': '\\u00e9\\n'",
                                       "'loss': -0.5E+30",
                                       "'peak_bytes': 9223372036854775807",
                                       "'loss': 123456789012345678.5"},
                             *const bad[] = {
                                 "'reason': '\xc3'", "'reason': '\\u00'", "'reason': '\\u0000'",
                                 "'loss': 1e999",    "'loss': 01",        "'loss': 1.",
                                 "'loss': .5",       "'loss': +1",        "'peak_bytes': 9223372036854775808",
                                 "'reason': 'a\tb'", "'l\\u006fss': 1"};
    for (size_t i = 0; i < COUNT(good); i++) {
        char text[600];
        snprintf(text, sizeof text, RECORD(TRIAL("") ", %s"), good[i]);
        expect_good(text);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[600];
        struct status status = {0};
        snprintf(text, sizeof text, RECORD(TRIAL("") ", %s"), bad[i]);
        if (check(text, &status) || status.code != STATUS_BAD_INPUT)
            fail_msg("accepted: %s", text);
    }
}

// Leaves what is not null, and numbers as values.
static void drop_null(json_t *object)
{
    const char *key;
    json_t *value;
    void *next;
    size_t i;
    json_object_foreach_safe(object, next, key, value)
    {
        drop_null(value);
        if (json_is_integer(value))
            json_object_set_new(object, key, json_real(json_number_value(value)));
        else if (json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0))
            json_object_del(object, key);
    }
    json_array_foreach(object, i, value)
    {
        drop_null(value);
        if (json_is_integer(value))
            json_array_set_new(object, i, json_real(json_number_value(value)));
    }
}

// Whether the line was read; if so, jansson takes it too, and it says the same.
static bool expect_same(const char *line, size_t bytes)
{
    struct interned interned = {0};
    struct record record;
    struct status status = {0};
    bool read = record_read(&record, line, bytes, &interned, "line", &status);
    if (!read && status.code != STATUS_BAD_INPUT)
        fail_msg("no reason: %.*s", (int)bytes, line);
    if (read) {
        json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL), *again = record_json(&record);
        assert_non_null(object);
        drop_null(object);
        drop_null(again);
        if (!json_equal(object, again))
            fail_msg("%s\nis not %.*s", json_dumps(again, JSON_COMPACT), (int)bytes, line);
        json_decref(object);
        json_decref(again);
    }
    interned_free(&interned);
    return read;
}

// Every type of field.
static const char sample[] =
    "{'schema': 2, 'id': '0123456789abcdef0123456789abcdef', 'experiment': 'a \\\\'b\\\\' \\\\\\\\ \\\\n', "
    "'status': "
    "'ok', 'reason': null, 'trial': {'model': {'layers': 1}, 'dtype': 'f64', 'device': 'cpu', 'batch': 1, "
    "'context': 64, 'tf32': false, 'method': {'name': 'seco', 'chunk': 8}, 'measure': {'max_seconds': 1.5}, "
    "'documents': [3, 4], 'limits': {'memory': null}}, 'loss': -1.25e-3, 'drawn_chunks': [1, 2], 'samples_ms': "
    "[1.5, "
    "2], "
    "'sample_chunks': [2, 3], 'slowdown': [1.5, 2.25], 'peak_by_category': {'weights': 3}, 'flops': 12, "
    "'gradient': {'hash': "
    "'0123456789abcdef', 'tensors': {'a': {'max_abs': 0.5}, 'b': {}}}, 'categories': {'rows': [{'shape': [2, 3, "
    "4], "
    "'ms': 0.25}]}, 'timeline': {'events': [[1, 2]]}, 'provenance': {'dirty': true}}";

static char *sample_line(void)
{
    char *line = quoted(sample);
    for (char *at; (at = strstr(line, "\\\\\""));) // quoted() makes a quote of what is escaped
        memmove(at, at + 1, strlen(at));
    return line;
}

static void every_type_is_read(void **state)
{
    (void)state;
    char *line = sample_line();
    assert_true(expect_same(line, strlen(line)));
    for (size_t bytes = 0; bytes < strlen(line); bytes++) {
        char *cut = strndup(line, bytes);
        assert_false(expect_same(cut, bytes));
        free(cut);
    }
    free(line);
}

// Records with fields that this program does not write.
static void others_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to; // of one length
    } changes[] = {
        {"'schema': 2", "'schema': 3"},
        {"'id': '0", "'id': 'g"},
        {"'ok'", "'OK'"},
        {"'batch': 1", "'batch': 0"},
        {"'batch': 1", "'Batch': 1"},
        {"'context': 64", "'context': -1"},
        {"'context': 64", "'context': .5"},
        {"'memory': null", "'memory': true"},
        {"'tf32': false", "'tf32': 'no' "},
        {"'name': 'seco'", "'none': 'seco'"},
        {"[1.5, 2]", "[1.5, 0]"},
        {"[1.5, 2]", "[1.5]   "},
        {"[2, 3], ", "[2]   , "},
        {"'sample_chunks': [2, 3]", "'sample_chunks': []    "},
        {"[1.5, 2.25]", "[1.5]      "},
        {"'slowdown': [1.5, 2.25]", "'slowdown': []         "},
        {"'weights': 3", "'weighty': 3"},
        {"'weights': 3", "'weights':-3"},
        {"'b': {}", "'a': {}"},
        {"'hash': '0", "'hash': 'G"},
        {"'loss': -1.25e-3", "'flops': 1.25e-3"},
        {"'documents': [3, 4]", "'batch':          1"},
        {"[[1, 2]]", "{'a': 1}"},
        {"'dirty': true", "'dirty': 1   "},
        {"{'layers': 1}", "{'a':1,'a':1}"},
    };
    char *line = sample_line();
    for (size_t i = 0; i < COUNT(changes); i++) {
        char *from = quoted(changes[i].from), *to = quoted(changes[i].to), *text = strdup(line);
        char *at = strstr(text, from);
        assert_true(at && strlen(from) == strlen(to));
        memcpy(at, to, strlen(to));
        if (expect_same(text, strlen(text)))
            fail_msg("read: %s", text);
        free(text);
        free(to);
        free(from);
    }
    free(line);
}

// Bytes of the sample are changed, and pieces of it repeated, left out and put elsewhere.
static void changed_lines_are_judged_as_their_json(void **state)
{
    (void)state;
    static const char signs[] = "\"\\{}[]:,0123456789.-+eEtfnu \n\x01\x80";
    struct random random = random_named(1, "bytes");
    char *line = sample_line();
    size_t length = strlen(line), read = 0, draw = 0;
    for (size_t i = 0; i < 10000; i++) {
        char *text = strdup(line);
        for (size_t change = 0; change <= i % 3; change++, draw += 3) {
            size_t at = random_below(&random, draw, length), from = random_below(&random, draw + 1, length);
            size_t max = length - (at > from ? at : from);
            if (i % 2)
                memmove(text + at, line + from, random_below(&random, draw + 2, max < 40 ? max : 40));
            else
                text[at] = signs[random_below(&random, draw + 1, sizeof signs - 1)];
        }
        read += expect_same(text, length);
        free(text);
    }
    printf("%zu of 10000 changed lines were read\n", read);
    assert_true(read > 150 && read < 9850);
    free(line);
}

static void the_same_is_kept_once(void **state)
{
    (void)state;
    struct interned interned = {0};
    char text[16];
    const char *first = interned_text(&interned, "text 7", 6);
    const json_t *list = interned_json(&interned, "[1, 2]", 6);
    for (size_t i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "text %zu", i);
        assert_string_equal(interned_text(&interned, text, strlen(text)), text);
    }
    assert_ptr_equal(interned_text(&interned, "text 77", 6), first);
    assert_string_equal(first, "text 7");
    assert_ptr_equal(interned_json(&interned, "[1, 2]", 6), list);
    struct interned_item *later = interned_item(&interned, "[3]", 3);
    assert_int_equal(json_array_size(list), 2);
    assert_null(interned_json(&interned, "{\"a\": 1, \"a\": 1}", 16));
    assert_null(interned_json(&interned, "[1, 2", 5));
    char *large = calloc(1, 200000);
    memset(large, 'x', 199999);
    assert_string_equal(interned_text(&interned, large, 199999), large);
    free(large);
    interned_finish(&interned);
    assert_int_equal(json_array_size(interned_item_json(later)), 1);
    assert_string_equal(first, "text 7");
    interned_free(&interned);
}

// Records of rounds with the same bits have their arrays, and what stands apart, in memory once.
static void records_have_what_is_alike_in_memory_once(void **state)
{
    (void)state;
    struct interned interned = {0};
    struct record records[3];
    struct status status = {0};
    char *line = sample_line();
    for (size_t i = 0; i < COUNT(records); i++) {
        char *hash = i == 2 ? strstr(line, "\"max_abs\"") : NULL; // of a tensor
        if (hash)
            memcpy(strstr(hash, "0.5"), "0.6", 3);
        assert_true(record_read(&records[i], line, strlen(line), &interned, "line", &status));
    }
    const struct record_parts *first = &records[0].gradient.tensors, *second = &records[1].gradient.tensors,
                              *third = &records[2].gradient.tensors;
    assert_int_equal(first->count, 2);
    assert_ptr_equal(first->items, second->items);
    assert_ptr_not_equal(first->items, third->items);
    assert_ptr_equal(first->names, third->names);
    assert_ptr_equal(records[0].samples_ms.items, records[2].samples_ms.items);
    assert_ptr_equal(records[0].categories, records[2].categories);
    assert_ptr_equal(records[0].peak_by_category, records[2].peak_by_category);
    free(line);
    interned_free(&interned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_may_be_short_or_null),
        cmocka_unit_test(samples_have_their_chunks),
        cmocka_unit_test(bad_records_are_refused),
        cmocka_unit_test(every_type_is_read),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(changed_lines_are_judged_as_their_json),
        cmocka_unit_test(texts_and_numbers_may_be_any_of_json),
        cmocka_unit_test(the_same_is_kept_once),
        cmocka_unit_test(records_have_what_is_alike_in_memory_once),
    };
    return cmocka_run_group_tests_name("record_read", tests, NULL, NULL);
}
