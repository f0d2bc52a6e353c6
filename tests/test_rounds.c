// Rounds of one trial as one record: the samples of all, and values derived from them.
#define _GNU_SOURCE // asprintf
#include "harness/record/rounds.h"
#include "harness/record/step_time.h"
#include "tests/parsed_record.h"
#include "tests/quoted.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// A record of a line's fields; without one of them it is that of a revision, "r", and a processor.
static const struct record *record_of(const char *fields)
{
    static const char base[] = "{'schema': 2, 'id': '00000000000000000000000000000001', 'experiment': 'e', "
                               "'status': 'ok', 'trial': {'model': "
                               "'tiny', 'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 8, 'method': "
                               "{'name': 'spaco', 'chunk': 4}}, "
                               "'provenance': {'revision': 'r', 'cpu': 'a'}}";
    char *text, *own, *whole = quoted(base);
    assert_true(asprintf(&text, "{%s}", fields) > 0);
    own = quoted(text);
    json_t *object = json_loads(whole, 0, NULL), *said = json_loads(own, 0, NULL);
    assert_int_equal(json_object_update(object, said), 0);
    char *line = json_dumps(object, JSON_COMPACT);
    const struct record *record = &parsed_record(line)->record;
    json_decref(said);
    json_decref(object);
    free(line);
    free(own);
    free(text);
    free(whole);
    return record;
}

static bool near(double found, double expected)
{
    return fabs(found - expected) <= 1e-12 * fabs(expected);
}

static void samples_are_those_of_all(void **state)
{
    (void)state;
    const struct record *rounds[] = {
        record_of(
            "'samples_ms': [1, 9], 'cpu_ms': [2, 3], 'median_ms': 5, 'flops_per_s': 100, 'model_flops_per_s': "
            "50, 'model_flops_share': 0.5, 'host_launch_ms': 3, 'load': {'before': 3, 'other_cores': 0.5}, "
            "'peak_bytes': 10"),
        record_of(
            "'samples_ms': [4], 'cpu_ms': [4], 'median_ms': 4, 'flops_per_s': 125, 'model_flops_per_s': 62.5, "
            "'model_flops_share': 0.625, 'host_launch_ms': 6, 'load': {'before': 0, 'other_cores': 2}, "
            "'peak_bytes': "
            "10"),
        record_of("'samples_ms': [2, 3], 'median_ms': 2.5, 'flops_per_s': 200, 'model_flops_per_s': 100, "
                  "'model_flops_share': 1, 'host_launch_ms': 0, 'load': {'before': 0, 'other_cores': 1.5}, "
                  "'peak_bytes': 10"),
    };
    assert_true(rounds_belong(rounds[0], rounds[1]) && rounds_belong(rounds[1], rounds[2]));
    struct record two = rounds_join(rounds[0], 1, rounds[1]), three = rounds_join(&two, 2, rounds[2]);
    static const double expected[] = {1, 9, 4, 2, 3};
    assert_int_equal(three.samples_ms.count, COUNT(expected));
    assert_memory_equal(three.samples_ms.items, expected, sizeof expected);
    assert_int_equal(two.cpu_ms.count, 3);
    assert_int_equal(three.cpu_ms.count, 0); // the last one has none
    assert_true(two.median_ms == 4 && three.median_ms == 3);
    assert_true(near(two.flops_per_s, 125) && near(three.flops_per_s, 200 * 2.5 / 3));
    assert_true(near(three.model_flops_per_s, 100 * 2.5 / 3) && near(three.model_flops_share, 2.5 / 3));
    assert_true(near(three.host_launch_ms, 3) && near(three.load.before, 1) &&
                near(three.load.other_cores, 4.0 / 3));
    assert_true(three.peak_bytes == 10);
    assert_int_equal(three.rounds.count, 3);
    assert_memory_equal(three.rounds.items, rounds, sizeof rounds);
    rounds_free(&two);
    rounds_free(&three);
    for (size_t i = 0; i < COUNT(rounds); i++)
        parsed_record_free(rounds[i]);
}

// Each sample walked a draw of its own, in all rounds the same: over draws goes the mean, and its error.
static void draws_are_means_over_rounds(void **state)
{
    (void)state;
    const struct record *rounds[] = {
        record_of("'samples_ms': [1, 5, 90], 'sample_chunks': [1, 2, 3], 'median_ms': 5, 'mean_ms': 32, "
                  "'mean_error_ms': 29, 'flops_per_s': 60, 'model_flops_per_s': 3"),
        record_of(
            "'samples_ms': [3, 7], 'sample_chunks': [1, 2], 'median_ms': 5, 'mean_ms': 5, 'mean_error_ms': 2, "
            "'flops_per_s': 20, 'model_flops_per_s': 8"),
        record_of(
            "'samples_ms': [5, 9], 'sample_chunks': [1, 2], 'median_ms': 7, 'mean_ms': 7, 'mean_error_ms': 2, "
            "'flops_per_s': 12, 'model_flops_per_s': 6"),
    };
    struct record two = rounds_join(rounds[0], 1, rounds[1]), three = rounds_join(&two, 2, rounds[2]);
    assert_int_equal(three.samples_ms.count, 2);
    assert_true(near(three.samples_ms.items[0], 3) && near(three.samples_ms.items[1], 7));
    assert_true(near(three.mean_ms, 5) && near(three.mean_error_ms, 2));
    assert_true(near(three.flops_per_s, 20)); // of draw 0
    assert_true(near(three.model_flops_per_s, 6 * 7.0 / 5));
    struct step_time time = step_time_of(&three);
    assert_true(near(time.ms, 5) && near(time.low, 1) && near(time.high, 9) && near(time.drawn_chunks, 1.5));
    rounds_free(&two);
    rounds_free(&three);
    for (size_t i = 0; i < COUNT(rounds); i++)
        parsed_record_free(rounds[i]);
}

static void others_are_no_rounds(void **state)
{
    (void)state;
    static const char *const others[] = {
        "'samples_ms': [1], 'status': 'oom'",
        "'samples_ms': []",
        "'samples_ms': [1], 'provenance': {'revision': 's', 'cpu': 'a'}",
        "'samples_ms': [1], 'provenance': {'revision': 'r', 'cpu': 'b'}",
        "'samples_ms': [1], 'provenance': {'revision': 'r', 'cpu': 'a', 'blas': 'core Zen'}",
        "'samples_ms': [1], 'sample_chunks': [3]",
        "'samples_ms': [1], 'drawn_chunks': [3]",
    };
    const struct record *record = record_of("'samples_ms': [1]");
    for (size_t i = 0; i < COUNT(others); i++) {
        const struct record *other = record_of(others[i]);
        if (rounds_belong(record, other) || rounds_belong(other, record))
            fail_msg("%s", others[i]);
        parsed_record_free(other);
    }
    parsed_record_free(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_those_of_all),
        cmocka_unit_test(draws_are_means_over_rounds),
        cmocka_unit_test(others_are_no_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
