// Samples: those of a trial do the same work, or it fails; their peak is the plan's, whatever was done before them.
// The linker puts this file's method_step in the place of the real one (Makefile).
#define _GNU_SOURCE // asprintf
#include "tests/asked.h"
#include "tests/sanitized.h"

// Steps before the one that asks for an operation more, and those so far.
static int before_more, steps;

static double shared_factor = 1; // of gradients where sequences share rows

extern __typeof__(method_step) __real_method_step, __wrap_method_step;
void __wrap_method_step(const struct method *method, struct model *model, const struct batch *batch,
                        const void *options, struct step_report *report)
{
    __real_method_step(method, model, batch, options, report);
    if (steps++ == before_more)
        op_scale(model->device, model->parameters[0].grad, 1);
    for (size_t i = 0; shared_factor != 1 && batch->of && i < model->parameter_count; i++)
        op_scale(model->device, model->parameters[i].grad, shared_factor);
}

// The warm-up may do what it likes.
static const char *const reasons[] = {"", "sample 2 did not ask for the same work as sample 1",
                                      "sample 2 did not ask for the same work as sample 1",
                                      "sample 3 did not ask for the same work as sample 1"};

static void a_sample_of_other_work_fails(void **state)
{
    (void)state;
    struct trial trial =
        trial_of("{'model': 'tiny', 'context': 8, 'method': 'full', 'measure': {'warmup': 1, 'samples': 3, "
                 "'gradient': 'none'}}");
    for (before_more = 0; before_more < 4; before_more++) {
        steps = 0;
        char *line = trial_run(&trial, -1);
        json_t *record = json_loads(line, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(record, "reason")), reasons[before_more]);
        json_decref(record);
        free(line);
    }
    trial_free(&trial);
}

#define PLENTY 1e12 // bytes

static json_t *measured(const char *device, double limit, int warmup, const char *keys)
{
    char *json;
    assert_true(asprintf(&json,
                         "{'model': 'tiny', 'device': '%s', 'limits': {'memory': '%.0fB'}, 'measure': {'warmup': "
                         "%d, 'samples': 1}, %s}",
                         device, limit, warmup, keys) > 0);
    struct trial trial = trial_of(json);
    char *line = trial_run(&trial, -1);
    json_t *record = json_loads(line, 0, NULL);
    assert_non_null(record);
    trial_free(&trial);
    free(line);
    free(json);
    return record;
}

static const char *text_at(const json_t *record, const char *key)
{
    return json_string_value(json_object_get(record, key));
}

// The gradient's check leaves gradients that an update takes in the walk, or whole ones in place of projected ones;
// data are drawn about log-probs that are made in cells of their own; a reference is made in those of the step.
static void a_peak_is_of_the_samples_alone(void **state)
{
    (void)state;
    static const char *const trials[] = {
        "'context': 64, 'method': 'full', 'optimizer': {'name': 'adamw', 'when': 'backward'}",
        "'context': 64, 'method': 'streambp', 'optimizer': {'name': 'adamw', 'when': 'backward'}",
        "'context': 64, 'method': {'name': 'seco', 'chunk': 16}, 'optimizer': {'name': 'galore', 'sums': "
        "'projected'}",
        "'context': 33, 'batch': 4, 'method': {'name': 'streambp', 'chunk': 8, 'head_chunk': 8, 'segments': 2}, "
        "'objective': {'name': 'grpo', 'policy': 'gspo'}",
        "'context': 64, 'batch': 2, 'method': {'name': 'streambp', 'chunk': 7, 'head_chunk': 8, 'offload': "
        "['inputs', 'input_gradients'], 'segments': 3}, 'lora': {'rank': 2}, 'objective': 'dpo', 'reference': "
        "'adapter-off'",
        "'context': 64, 'method': {'name': 'seco', 'chunk': 16, 'offload': ['gradients']}, 'optimizer': {'name': "
        "'galore', 'sums': 'projected'}",
        "'context': 64, 'dtype': 'bf16', 'method': {'name': 'seco', 'chunk': 16}, 'gradient_dtype': 'bf16', "
        "'kv_gradient_dtype': 'bf16'",
    };
    before_more = -1;
    for (size_t i = 0; i < COUNT(trials); i += stride()) {
        json_t *plan = measured("plan-cpu", PLENTY, 0, trials[i]);
        double planned = number(plan, "peak_bytes");
        json_t *fits = measured("cpu", planned, 0, trials[i]),
               *does_not = measured("cpu", planned - 1, 0, trials[i]);
        if (strcmp(text_at(fits, "status"), "ok") != 0 || number(fits, "peak_bytes") != planned ||
            !json_equal(json_object_get(fits, "host_peak_bytes"), json_object_get(plan, "host_peak_bytes")))
            fail_msg("%s: planned %.0f: %s", trials[i], planned, json_dumps(fits, JSON_COMPACT));
        assert_string_equal(text_at(does_not, "status"), "oom");
        json_decref(plan);
        json_decref(fits);
        json_decref(does_not);
    }
}

// Nor is it of the warm-up, which makes other draws: their chunks reach further than the first one's.
static void a_peak_is_of_the_first_draw(void **state)
{
    (void)state;
    static const char keys[] =
        "'context': 64, 'method': {'name': 'spaco', 'chunk': 8, 'budget': 1, 'offload': ['kv']}";
    json_t *plan = measured("plan-cpu", PLENTY, 0, keys), *record = measured("cpu", PLENTY, 9, keys);
    assert_true(number(record, "peak_bytes") == number(plan, "peak_bytes"));
    assert_true(number(record, "host_peak_bytes") == number(plan, "host_peak_bytes"));
    json_decref(plan);
    json_decref(record);
}

// Rounding of a step with shared rows is separate from that of its sequences: otherwise a wrong step would pass.
static void a_wrong_step_of_shared_rows_fails(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        shared_factor = wrong ? 1.001 : 1;
        json_t *record = measured("cpu", PLENTY, 0,
                                  "'dtype': 'f64', 'context': 12, 'batch': 4, 'prompt': 4, 'group': 2, 'method': "
                                  "'full', 'objective': 'grpo'");
        assert_string_equal(text_at(record, "status"), wrong ? "failed" : "ok");
        assert_true(!wrong || strstr(text_at(record, "reason"), "is off: relative L2 0.001 against full f64"));
        json_decref(record);
    }
    shared_factor = 1;
}

// Rounding leaves something of gradients whose terms cancel: of queries and keys where a token sees itself alone,
// and of all that trains where this is nothing else.
static void a_gradient_that_vanishes_is_right(void **state)
{
    (void)state;
    static const char *const trials[] = {"'context': 2, 'documents': 2, 'method': {'name': 'streambp', 'chunk': 1, "
                                         "'attention': 'kept', 'segments': 2}",
                                         "'context': 2, 'documents': 2, 'method': {'name': 'seco', 'chunk': 1}, "
                                         "'lora': {'rank': 4, 'targets': ['q', 'k']}"};
    static const struct {
        const char *dtype;
        double max; // of relative errors, which are of a share of the gradient
    } dtypes[] = {{"f64", 1e-13}, {"f32", 1e-4}, {"bf16", 0.1}};
    before_more = -1;
    for (size_t i = 0; i < COUNT(trials) * COUNT(dtypes); i++) {
        char keys[400];
        snprintf(keys, sizeof keys, "'dtype': '%s', %s", dtypes[i % 3].dtype, trials[i / 3]);
        json_t *record = measured("cpu", PLENTY, 0, keys), *gradient = json_object_get(record, "gradient");
        assert_string_equal(text_at(record, "reason"), "");
        assert_true(json_number_value(json_object_get(gradient, "relative_l2")) < dtypes[i % 3].max);
        assert_true(json_number_value(json_object_get(gradient, "worst_relative_l2")) < dtypes[i % 3].max);
        json_decref(record);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_of_other_work_fails), cmocka_unit_test(a_peak_is_of_the_samples_alone),
        cmocka_unit_test(a_peak_is_of_the_first_draw), cmocka_unit_test(a_wrong_step_of_shared_rows_fails),
        cmocka_unit_test(a_gradient_that_vanishes_is_right)};
    return cmocka_run_group_tests_name("samples", tests, NULL, NULL);
}
