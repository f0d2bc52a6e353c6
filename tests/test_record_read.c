// Tests of harness/record/record_read: a record by its own schema, and every violation of it, reported by its key;
// read values are those of the line's JSON.
#include "harness/record/record_json.h"
#include "harness/record/record_read.h"
#include "kernels/base/random.h"
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

static void expect_bad(const char *text, const char *message)
{
    struct status status = {0};
    char *expected = quoted(message);
    if (check(text, &status))
        fail_msg("accepted: %s", text);
    if (status.code != STATUS_BAD_INPUT || !strstr(status.message, expected) ||
        strstr(status.message, "r:7: ") != status.message)
        fail_msg("expected %s\n   found %s", expected, status.message);
    free(expected);
}

static void a_record_may_be_short_or_null(void **state)
{
    (void)state;
    expect_good(RECORD(TRIAL("")));
    expect_good(RECORD(TRIAL(", 'row_weights': null"))); // a key that there is no more
    expect_good(RECORD(TRIAL("") ", 'round': 1000"));
    expect_bad(RECORD(TRIAL("") ", 'round': 0"), "'round' is not a whole number from 1 to 1000");
    expect_bad(RECORD(TRIAL("") ", 'round': 1001"), "'round' is not a whole number from 1 to 1000");
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
    expect_bad("{'schema': 2, 'id': '" ID
               "', 'experiment': 'e', 'status': 'ok', 'trial': {'dtype': 'f32', 'device': "
               "'cpu', 'batch': 1, 'context': 8, 'method': {'name': 'fu\\tll'}}}",
               "'trial.method.name' is missing or empty, or has control characters");
    expect_bad("{'schema': 2, 'id': '" ID
               "', 'experiment': 'e', 'status': 'ok', 'trial': {'dtype': 'f32', 'device': "
               "'cpu', 'batch': 1, 'context': 8, 'method': {'name': ''}}}",
               "'trial.method.name' is missing or empty, or has control characters");
    expect_bad(RECORD(TRIAL("") ", 'sample_chunks': [1, -1]"), "'sample_chunks' is not an array of whole numbers");
    expect_bad(RECORD(TRIAL("") ", 'sample_chunks': [1.5]"), "'sample_chunks' is not an array of whole numbers");
    expect_bad(RECORD(TRIAL("") ", 'sample_chunks': 1"), "'sample_chunks' is not an array of whole numbers");
    expect_bad(RECORD(TRIAL("") ", 'samples_ms': [1, 2], 'sample_chunks': [3]"),
               "'sample_chunks' are 1, but 'samples_ms' 2");
    expect_good(RECORD(TRIAL("") ", 'samples_ms': [1, 2], 'slowdown': [3, 0.5]"));
    expect_bad(RECORD(TRIAL("") ", 'samples_ms': [1, 2], 'slowdown': [3]"), "'slowdown' are 1, but 'samples_ms' 2");
    expect_bad(RECORD(TRIAL("") ", 'samples_ms': [1], 'slowdown': [0]"),
               "'slowdown' is not an array of numbers > 0");
}

static void unknown_keys_are_named_wherever_they_are(void **state)
{
    (void)state;
    expect_bad(RECORD(TRIAL("") ", 'peek_bytes': 1"), "unknown key 'peek_bytes'; did you mean 'peak_bytes'?");
    expect_bad(RECORD(TRIAL(", 'sed': 1")), "unknown key 'trial.sed'; did you mean 'seed'?");
    expect_bad(RECORD(TRIAL(", 'measure': {'sample': 5}")),
               "unknown key 'trial.measure.sample'; did you mean 'samples'?");
    expect_bad(RECORD(TRIAL(", 'limits': {'time': 5}")),
               "unknown key 'trial.limits.time'; known keys: memory, host_memory");
    expect_bad(RECORD(TRIAL("") ", 'peak_by_category': {'weight': 5}"), "unknown key 'peak_by_category.weight'");
    expect_bad(RECORD(TRIAL("") ", 'gradient': {'l2': 5}"), "unknown key 'gradient.l2'");
    expect_bad(RECORD(TRIAL("") ", 'bias': {'l2': 5}"), "unknown key 'bias.l2'");
    expect_bad(RECORD(TRIAL("") ", 'sm_clock_mhz': {'mean': 1}"), "unknown key 'sm_clock_mhz.mean'");
    expect_bad(RECORD(TRIAL("") ", 'timeline': {'event': []}"), "unknown key 'timeline.event'");
    expect_bad(RECORD(TRIAL("") ", 'categories': {'row': []}"), "unknown key 'categories.row'");
    expect_bad(RECORD(TRIAL("") ", 'categories': {'roofline': {'rate': 1}}"),
               "unknown key 'categories.roofline.rate'");
    expect_bad(RECORD(TRIAL("") ", 'provenance': {'host': 'x'}"), "unknown key 'provenance.host'");
}

// Values that no program writes: what draws or lists records need not expect them.
static void trials_are_possible(void **state)
{
    (void)state;
    const struct {
        const char *counts, *message;
    } cases[] = {{"'batch': 1, 'context': 0", "'trial.context' is not a whole number >= 1"},
                 {"'batch': 0, 'context': 8", "'trial.batch' is not a whole number >= 1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "{'schema': 2, 'id': '0123456789abcdef0123456789abcdef', 'experiment': 'e', 'status': 'ok', "
                 "'trial': {'dtype': 'f32', 'device': 'cpu', %s, 'method': {'name': 'full'}}}",
                 cases[i].counts);
        expect_bad(text, cases[i].message);
    }
}

static void sizes_are_not_below_zero(void **state)
{
    (void)state;
    expect_bad(RECORD(TRIAL("") ", 'peak_bytes': -1"), "'peak_bytes' is not a whole number >= 0");
    expect_bad(RECORD(TRIAL("") ", 'peak_by_category': {'logits': -1}"),
               "'peak_by_category.logits' is not a whole");
    expect_bad(RECORD(TRIAL("") ", 'flops': -1e9"), "'flops' is not a number >= 0");
    expect_bad(RECORD(TRIAL("") ", 'bytes_moved': -0.5"), "'bytes_moved' is not a number >= 0");
    expect_bad(RECORD(TRIAL("") ", 'energy_j': -1"), "'energy_j' is not a number >= 0");
    expect_bad(RECORD(TRIAL("") ", 'sm_clock_mhz': {'min': -1}"), "'sm_clock_mhz.min' is not a number >= 0");
    expect_bad(RECORD(TRIAL("") ", 'launches': -2"), "'launches' is not a whole number >= 0");
    expect_bad(RECORD(TRIAL("") ", 'gradient': {'relative_l2': -1e-9}"),
               "'gradient.relative_l2' is not a number >= 0");
    expect_bad(RECORD(TRIAL(", 'measure': {'samples': -5}")), "'trial.measure.samples' is not a whole number >= 0");
    expect_bad(RECORD(TRIAL("") ", 'samples_ms': [1, -1]"), "'samples_ms' is not an array of numbers > 0");
    expect_bad(RECORD(TRIAL("") ", 'samples_ms': [1, 0]"), "'samples_ms' is not an array of numbers > 0");
    expect_bad(RECORD(TRIAL("") ", 'samples_ms': [null]"), "'samples_ms' is not an array of numbers > 0");
    expect_bad(RECORD(TRIAL("") ", 'samples_ms': 3"), "'samples_ms' is not an array of numbers > 0");
}

static void types_are_checked(void **state)
{
    (void)state;
    expect_bad(RECORD(TRIAL("") ", 'gradient': {'hash': 17}"), "'gradient.hash' is not 16 hexadecimal digits");
    expect_bad(RECORD(TRIAL("") ", 'gradient': {'hash': '0123456789ABCDEF'}"), "'gradient.hash' is not 16");
    expect_bad(RECORD(TRIAL("") ", 'gradient': {'tensors': {'w.a': {'hash': '012'}}}"),
               "'gradient.tensors.w.a.hash' is not 16 hexadecimal digits");
    expect_bad(RECORD(TRIAL("") ", 'gradient': {'tensors': {'w.a': {'max': 1}}}"),
               "unknown key 'gradient.tensors.w.a.max'");
    expect_bad(RECORD(TRIAL("") ", 'gradient': {'tensors': {'w.a': 1}}"),
               "'gradient.tensors.w.a' is not an object");
    expect_bad(RECORD(TRIAL("") ", 'launches': 2.5"), "'launches' is not a whole number >= 0");
    expect_bad(RECORD(TRIAL("") ", 'gradient': 'none'"), "'gradient' is not an object");
    expect_bad(RECORD(TRIAL("") ", 'peak_by_category': [1]"), "'peak_by_category' is not an object");
    expect_bad(RECORD(TRIAL("") ", 'provenance': {'dirty': 1}"), "'provenance.dirty' is not true or false");
    expect_bad(RECORD("'trial': null"), "'trial' is not an object");
    expect_bad("{'schema': 2}", "not a record: 'id' is missing");
    expect_bad("{'schema': 3, 'what': 'ever'}", "schema 3, but this program reads schema 2");
    expect_bad("{'schema': 1, 'what': 'ever'}", "schema 1, but this program reads schema 2");
    expect_bad("{'schema': '1'}", "'schema' is missing");
    expect_bad("[]", "a JSON object was expected");
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
        cmocka_unit_test(unknown_keys_are_named_wherever_they_are),
        cmocka_unit_test(trials_are_possible),
        cmocka_unit_test(sizes_are_not_below_zero),
        cmocka_unit_test(types_are_checked),
        cmocka_unit_test(every_type_is_read),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(changed_lines_are_judged_as_their_json),
        cmocka_unit_test(texts_and_numbers_may_be_any_of_json),
        cmocka_unit_test(the_same_is_kept_once),
        cmocka_unit_test(records_have_what_is_alike_in_memory_once),
    };
    return cmocka_run_group_tests_name("record_read", tests, NULL, NULL);
}
