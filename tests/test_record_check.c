// Tests of harness/record_check: a record by its own schema, and every way to leave it, named by its key.
#include "harness/record/record_check.h"
#include "tests/quoted.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef"
#define TRIAL(more)                                                                                                \
    "'trial': {'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 8, 'method': {'name': 'full'}" more "}"
#define RECORD(more) "{'schema': 2, 'id': '" ID "', 'experiment': 'e', 'status': 'ok', " more "}"

static bool check(const char *text, struct status *status)
{
    char *json = quoted(text);
    json_t *record = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
    if (!record)
        fail_msg("not JSON: %s", json);
    bool good = record_check(record, "r:7", status);
    json_decref(record);
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

static void samples_have_their_columns(void **state)
{
    (void)state;
    expect_good(RECORD(TRIAL("") ", 'samples_ms': [0.5, 3], 'sample_columns': [0, 2], 'mean_ms': 1.75, "
                                 "'mean_error_ms': null"));
    expect_good(RECORD(TRIAL("") ", 'samples_ms': [], 'sample_columns': [1, 2, 3], 'estimate_ms': 7")); // a plan's
    expect_bad("{'schema': 2, 'id': '" ID
               "', 'experiment': 'e', 'status': 'ok', 'trial': {'dtype': 'f32', 'device': "
               "'cpu', 'batch': 1, 'context': 8, 'method': {'name': 'fu\\tll'}}}",
               "'trial.method.name' is missing or empty, or has control characters");
    expect_bad("{'schema': 2, 'id': '" ID
               "', 'experiment': 'e', 'status': 'ok', 'trial': {'dtype': 'f32', 'device': "
               "'cpu', 'batch': 1, 'context': 8, 'method': {'name': ''}}}",
               "'trial.method.name' is missing or empty, or has control characters");
    expect_bad(RECORD(TRIAL("") ", 'sample_columns': [1, -1]"),
               "'sample_columns' is not an array of whole numbers");
    expect_bad(RECORD(TRIAL("") ", 'sample_columns': [1.5]"), "'sample_columns' is not an array of whole numbers");
    expect_bad(RECORD(TRIAL("") ", 'sample_columns': 1"), "'sample_columns' is not an array of whole numbers");
    expect_bad(RECORD(TRIAL("") ", 'samples_ms': [1, 2], 'sample_columns': [3]"),
               "'sample_columns' are 1, but 'samples_ms' 2");
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
    expect_bad("{'schema': 1, 'what': 'ever'}", "schema 1, but this program reads schema 2; `longbp convert`");
    expect_bad("{'schema': '1'}", "'schema' is missing");
    expect_bad("[]", "a JSON object was expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_may_be_short_or_null),
        cmocka_unit_test(samples_have_their_columns),
        cmocka_unit_test(unknown_keys_are_named_wherever_they_are),
        cmocka_unit_test(trials_are_possible),
        cmocka_unit_test(sizes_are_not_below_zero),
        cmocka_unit_test(types_are_checked),
    };
    return cmocka_run_group_tests_name("record_check", tests, NULL, NULL);
}
