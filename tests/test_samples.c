// Samples: those of a trial do the same work, or it fails; their peak is the plan's, whatever was done before them.
// The linker puts this file's method_step in the place of the real one (Makefile).
#define _GNU_SOURCE // asprintf
#include "tests/asked.h"

// Steps before the one that asks for an operation more, and those so far.
static int before_more, steps;

extern __typeof__(method_step) __real_method_step, __wrap_method_step;
void __wrap_method_step(const struct method *method, struct model *model, const struct batch *batch,
                        const void *options, struct step_report *report)
{
    __real_method_step(method, model, batch, options, report);
    if (steps++ == before_more) {
        op_scale(model->device, model->parameters[0].grad, 1);
    }
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

static double peak_of(const char *device, const char *keys)
{
    char *json;
    assert_true(asprintf(&json, "{'model': 'tiny', 'device': '%s', 'measure': {'warmup': 0, 'samples': 1}, %s}",
                         device, keys) > 0);
    json_t *record = record_of(json);
    double peak = json_number_value(json_object_get(record, "peak_bytes"));
    json_decref(record);
    free(json);
    return peak;
}

// The gradient's check leaves gradients that an update takes in the walk, or whole ones in place of projected ones;
// data are drawn about log-probs that are made in cells of their own; a reference is made in those of the step.
static void a_peak_is_of_the_samples_alone(void **state)
{
    (void)state;
    static const char *const trials[] = {
        "'context': 64, 'method': 'full', 'optimizer': {'name': 'adamw', 'when': 'walk'}",
        "'context': 64, 'method': 'streambp', 'optimizer': {'name': 'adamw', 'when': 'walk'}",
        "'context': 64, 'method': {'name': 'seco', 'chunk': 16}, 'optimizer': {'name': 'galore', 'sums': "
        "'projected'}",
        "'context': 33, 'batch': 4, 'method': {'name': 'streambp', 'chunk': 8, 'head_chunk': 8, 'stages': 2}, "
        "'objective': {'name': 'grpo', 'policy': 'gspo'}",
        "'context': 64, 'batch': 2, 'method': {'name': 'streambp', 'chunk': 7, 'head_chunk': 8, 'offload': "
        "'inputs+gradient', 'stages': 3}, 'lora': {'rank': 2}, 'objective': 'dpo', 'reference': 'adapter-off'",
    };
    before_more = -1;
    for (size_t i = 0; i < COUNT(trials); i++) {
        double planned = peak_of("plan-cpu", trials[i]);
        char *limited;
        assert_true(asprintf(&limited, "'limits': {'memory': '%.0fB'}, %s", planned, trials[i]) > 0);
        double peak = peak_of("cpu", limited);
        if (peak != planned)
            fail_msg("%s: %.0f, planned %.0f", trials[i], peak, planned);
        free(limited);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_sample_of_other_work_fails),
                                       cmocka_unit_test(a_peak_is_of_the_samples_alone)};
    return cmocka_run_group_tests_name("samples", tests, NULL, NULL);
}
