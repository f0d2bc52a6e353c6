// Samples: those of a trial do the same work, or it fails. The linker puts this file's method_step in the place of
// the real one (Makefile).
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

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_sample_of_other_work_fails)};
    return cmocka_run_group_tests_name("samples", tests, NULL, NULL);
}
