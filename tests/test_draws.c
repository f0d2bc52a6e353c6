// Tests of trials whose method draws its chunks: every sample walks a draw of its own, the same ones in every run;
// all but the times is of draw 0; a later draw that does not fit is an end like any other. And of
// harness/record/step_time, which reads such records. JSON is written with ' for ".
#define _GNU_SOURCE // asprintf
#include "harness/machine/environment.h"
#include "harness/record/record_read.h"
#include "harness/record/step_time.h"
#include "harness/spec/trial_decode.h"
#include "harness/trial/trial_run.h"
#include "methods/sampler.h"
#include "tests/quoted.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SAMPLES      40

// A trial of 24 tokens in 6 chunks of a small model: its method, the bracket behind it, and its other keys.
static json_t *record_of(const char *method_and_more)
{
    struct trial trial;
    struct status status = {0};
    char *text, *json;
    assert_true(asprintf(&text,
                         "{'model': {'layers': 1, 'width': 8, 'heads': 2, 'ffn': 8, 'vocab': 11}, 'dtype': 'f64', "
                         "'context': 24, 'method': {%s",
                         method_and_more) > 0);
    json = quoted(text);
    if (!trial_decode(&trial, json, "trial", &status))
        fail_msg("%s: %s", json, status.message);
    char *line = trial_run(&trial, -1);
    json_t *record = json_loads(line, 0, NULL);
    assert_non_null(record);
    json_object_set_new(record, "experiment", json_string("e"));
    free(line);
    trial_free(&trial);
    free(json);
    free(text);
    return record;
}

// Timed as often as said after one step of warm-up: the method with its options, and other keys of the trial.
static json_t *run_samples(size_t samples, const char *method, const char *more)
{
    char *text;
    assert_true(asprintf(&text, "%s}, 'measure': {'warmup': 1, 'samples': %zu}%s}", method, samples, more) > 0);
    json_t *record = record_of(text);
    free(text);
    return record;
}

static struct step_time time_of(const json_t *object, bool estimate)
{
    struct record record;
    struct interned interned = {0};
    struct status status = {0};
    char *line = json_dumps(object, JSON_COMPACT);
    if (!record_read(&record, line, strlen(line), &interned, "record", &status))
        fail_msg("%s: %s", line, status.message);
    struct step_time time = estimate ? step_time_estimate(&record) : step_time_of(&record);
    interned_free(&interned);
    free(line);
    return time;
}

static json_t *run(const char *method, const char *more)
{
    return run_samples(SAMPLES, method, more);
}

#define SPACO(sampler, budget, seed)                                                                               \
    "'name': 'spaco', 'chunk': 4, 'sampler': '" sampler "', 'budget': " #budget ", 'sampler_seed': " #seed

static const char *status_of(const json_t *record)
{
    return json_string_value(json_object_get(record, "status"));
}

static double number(const json_t *record, const char *key)
{
    const json_t *value = json_object_get(record, key);
    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}

// How many of the samples drew so many chunks.
static void count_samples(const json_t *record, size_t of_count[7])
{
    const json_t *chunks = json_object_get(record, "sample_chunks"), *count;
    size_t i;
    assert_int_equal(json_array_size(chunks), SAMPLES);
    assert_int_equal(json_array_size(json_object_get(record, "samples_ms")), SAMPLES);
    memset(of_count, 0, 7 * sizeof *of_count);
    json_array_foreach(chunks, i, count) of_count[json_integer_value(count)]++;
}

// 40 draws of about t of 6 chunks: bernoulli's are sometimes empty, and have t chunks on average, or nearly.
static void every_sample_walks_a_draw_of_its_own(void **state)
{
    (void)state;
    static const char *const methods[] = {SPACO("bernoulli", 1, 1), SPACO("bernoulli", 2, 1),
                                          SPACO("sequential", 2, 1)};
    for (size_t i = 0; i < COUNT(methods); i++) {
        json_t *record = run(methods[i], ""), *again = run(methods[i], "");
        size_t of_count[7];
        assert_string_equal(status_of(record), "ok");
        count_samples(record, of_count);
        struct step_time time = time_of(record, false);
        double deviation = sqrt(6 * (1 / 3.) * (2 / 3.) / SAMPLES);
        assert_true(fabs(time.drawn_chunks - (i == 0 ? 1 : 2)) < 3 * deviation);
        assert_true(of_count[2] > 0 && of_count[2] < SAMPLES);
        assert_true(i == 2 || (of_count[0] > 0 && of_count[1] > 0));
        // The same draws in every run, of one build or of two.
        assert_true(json_equal(json_object_get(record, "sample_chunks"), json_object_get(again, "sample_chunks")));
        json_decref(again);
        json_decref(record);
    }
}

// uniform draws t chunks each time, but not the same: the counts of its steps tell.
static void what_is_recorded_is_of_draw_0(void **state)
{
    (void)state;
    static const char *const of_draw[] = {
        "loss",     "drawn_chunks", "peak_bytes", "peak_by_category",           "flops",
        "launches", "bytes_moved",  "gradient",   "lower_bound_bytes_per_token"};
    static const char *const samplers[] = {"uniform", "bernoulli", "sequential"};
    size_t moved = 0;
    for (size_t i = 0; i < COUNT(samplers); i++) {
        for (int optimizer = 0; optimizer < 2; optimizer++) {
            char method[160];
            const char *more = optimizer ? ", 'optimizer': 'adamw'" : "";
            snprintf(method, sizeof method, "'name': 'spaco', 'chunk': 4, 'sampler': '%s', 'budget': 2",
                     samplers[i]);
            struct spaco_options options = {
                .budget = 2, .sampler = (enum sampler)i, .compensation = COMPENSATION_PAPER, .sampler_seed = 1};
            struct draw draw = sampler_draw(&options, 6);
            json_t *record = run(method, more), *chunks = json_object_get(record, "drawn_chunks");
            assert_int_equal(json_array_size(chunks), draw.chunks.count);
            for (size_t j = 0; j < draw.chunks.count; j++)
                assert_int_equal(json_integer_value(json_array_get(chunks, j)), draw.chunks.items[j]);
            // A trial that walks that draw alone, in a single sample.
            json_t *first = run_samples(1, method, more);
            for (size_t j = 0; j < COUNT(of_draw); j++)
                if (!json_equal(json_object_get(record, of_draw[j]), json_object_get(first, of_draw[j])))
                    fail_msg("%s%s: %s is not of draw 0", samplers[i], more, of_draw[j]);
            options.sampler_seed = sampler_seed_of(options.sampler_seed, SAMPLES - 1);
            struct draw last = sampler_draw(&options, 6);
            moved += !index_list_equal(&last.chunks, &draw.chunks);
            draw_free(&last);
            draw_free(&draw);
            json_decref(first);
            json_decref(record);
        }
    }
    assert_true(moved > 0);
}

// The first two draws of seed 33 are of no chunk, the third of three.
static void a_later_draw_that_does_not_fit_is_oom(void **state)
{
    (void)state;
    json_t *record = run(SPACO("bernoulli", 2, 33), "");
    assert_string_equal(status_of(record), "ok");
    assert_null(json_object_get(record, "drawn_chunks"));
    char limit[80];
    snprintf(limit, sizeof limit, ", 'limits': {'memory': %.0f}", number(record, "peak_bytes"));
    json_decref(record);
    record = run(SPACO("bernoulli", 2, 33), limit);
    const char *reason = json_string_value(json_object_get(record, "reason"));
    assert_string_equal(status_of(record), "oom");
    if (strstr(reason, "draw 2, of 3 chunks: ") != reason || !strstr(reason, "limit"))
        fail_msg("%s", reason);
    assert_true(json_is_null(json_object_get(record, "flops")) && json_is_null(json_object_get(record, "mean_ms")));
    assert_int_equal(json_array_size(json_object_get(record, "samples_ms")), 0);
    json_decref(record);
}

static void what_does_not_draw_has_a_median(void **state)
{
    (void)state;
    static const char *const methods[] = {
        "'name': 'seco', 'chunk': 4", "'name': 'spaco', 'chunk': 4, 'sampler': 'fixed', 'drawn_chunks': [1, 3]"};
    for (size_t i = 0; i < COUNT(methods); i++) {
        json_t *record = run(methods[i], "");
        assert_null(json_object_get(record, "sample_chunks"));
        assert_true(json_is_null(json_object_get(record, "mean_ms")));
        struct step_time time = time_of(record, false);
        assert_true(time.ms > 0 && time.ms == number(record, "median_ms"));
        assert_true(isnan(time.drawn_chunks));
        json_decref(record);
    }
}

static struct step_time time_by_hand(const char *text, bool estimate)
{
    char *json = quoted(text);
    json_t *record = json_loads(json, 0, NULL);
    assert_non_null(record);
    struct step_time time = time_of(record, estimate);
    json_decref(record);
    free(json);
    return time;
}

static void step_times_by_hand(void **state)
{
    (void)state;
#define OF(method)                                                                                                 \
    "{'schema': 2, 'id': '0123456789abcdef0123456789abcdef', 'experiment': 'e', 'status': 'ok', 'trial': "         \
    "{'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 8, 'method': {" method "}}, "
#define METHOD(sampler) OF("'name': 'spaco', 'sampler': '" sampler "'")
#define TIMES           "'samples_ms': [1, 2, 9], 'median_ms': 2, 'estimate_ms': 7"
    struct step_time time = time_by_hand(OF("'name': 'seco'") TIMES "}", false);
    assert_true(time.ms == 2 && time.low == 1 && time.high == 9 && isnan(time.drawn_chunks));
    time = time_by_hand(
        METHOD("bernoulli") TIMES ", 'sample_chunks': [0, 1, 4], 'mean_ms': 4, 'mean_error_ms': 0.5}", false);
    assert_true(time.ms == 4 && time.low == 3 && time.high == 5);
    assert_true(fabs(time.drawn_chunks - 5 / 3.) < 1e-15);
    // No time is below 0: what two errors below the mean would be ends at the fastest sample.
    time = time_by_hand(
        METHOD("bernoulli") TIMES ", 'sample_chunks': [0, 1, 4], 'mean_ms': 4, 'mean_error_ms': 2.5}", false);
    assert_true(time.ms == 4 && time.low == 1 && time.high == 9);
    time = time_by_hand(METHOD("bernoulli") TIMES ", 'sample_chunks': [0, 1, 4]}", true);
    assert_true(time.ms == 7 && fabs(time.drawn_chunks - 5 / 3.) < 1e-15);
    // Samples of one draw say nothing of the others.
    assert_true(isnan(time_by_hand(METHOD("uniform") TIMES "}", false).ms));
    assert_true(isnan(time_by_hand(METHOD("uniform") TIMES "}", true).ms));
    assert_true(time_by_hand(METHOD("fixed") TIMES "}", false).ms == 2);
    assert_true(time_by_hand(METHOD("fixed") TIMES "}", true).ms == 7);
}

// For one draw the estimate's error is that of its gradient; over all pairs of chunks it is the root of the mean
// square, an upper bound of the error of the mean gradient.
static void an_error_is_relative_to_the_gradient(void **state)
{
    (void)state;
#define BIAS ", 'measure': {'warmup': 0, 'samples': 1, 'bias': true}}"
    json_t *one = record_of("'name': 'spaco', 'chunk': 4, 'sampler': 'fixed', 'drawn_chunks': [1, 3]"
                            "}" BIAS);
    json_t *bias = json_object_get(one, "bias");
    double error = number(json_object_get(one, "gradient"), "relative_l2");
    assert_true(error > 0.1 && number(bias, "subsets") == 1);
    assert_true(fabs(number(bias, "relative_l2") / error - 1) < 1e-12);
    assert_true(fabs(number(bias, "rms_error") / error - 1) < 1e-12);
    assert_true(number(bias, "flops") == number(one, "flops"));
    json_decref(one);
    json_t *all = record_of("'name': 'spaco', 'chunk': 4, 'budget': 2"
                            "}" BIAS);
    bias = json_object_get(all, "bias");
    assert_true(number(bias, "subsets") == 15 && number(bias, "relative_l2") < number(bias, "rms_error"));
    double flops = 0;
    for (int set = 0; set < 36; set++) {
        char method[120];
        if (set / 6 >= set % 6)
            continue;
        snprintf(method, sizeof method,
                 "'name': 'spaco', 'chunk': 4, 'sampler': 'fixed', 'drawn_chunks': [%d, %d]}}", set / 6, set % 6);
        json_t *drawn = record_of(method);
        flops += number(drawn, "flops") / 15;
        json_decref(drawn);
    }
    assert_true(fabs(number(bias, "flops") / flops - 1) < 1e-12);
    json_decref(all);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_walks_a_draw_of_its_own),
        cmocka_unit_test(what_is_recorded_is_of_draw_0),
        cmocka_unit_test(a_later_draw_that_does_not_fit_is_oom),
        cmocka_unit_test(what_does_not_draw_has_a_median),
        cmocka_unit_test(step_times_by_hand),
        cmocka_unit_test(an_error_is_relative_to_the_gradient),
    };
    return cmocka_run_group_tests_name("draws", tests, NULL, NULL);
}
