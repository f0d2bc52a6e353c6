// What a step promises whoever calls it, for every method: a loop over the array, so that a new one is tested by
// existing.
#include "harness/run/environment.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK 5 // of 23 tokens: four columns and a shorter one

static struct method_options options_of(void)
{
    struct method_options options;
    options_init(&options);
    options.chunk = CHUNK;
    options.head_chunk = 3;
    options.budget = 3; // the same columns in every step: the seed is the same
    return options;
}

// Several micro-batches, each added to what the one before left, are one batch.
static void test_micro_batches_add_up(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.sequences = 4;
    fixture_open(&f);
    struct batch whole = f.batch;
    for (const struct method *const *m = methods; *m; m++) {
        struct method_options options = options_of();
        struct step_report report = {0};
        double *expected = fixture_step(&f, (*m)->name, &options, &report), loss = report.loss, sum = 0;
        model_zero_gradients(&f.model);
        for (size_t first = 0, count = 1; first < f.sequences; first += count, count = 3) {
            struct batch micro;
            batch_open(&micro, f.device, f.ids + first * f.context, NULL, f.context, count);
            micro.target_count = whole.target_count;
            method_step(*m, &f.model, &micro, &options, &report);
            sum += report.loss;
            batch_close(&micro, f.device);
        }
        double *found = fixture_gradients(&f);
        if (!(relative_l2(found, expected, f.gradient_count) <= 1e-13) || !(fabs(sum - loss) <= 1e-13 * loss)) {
            fail_msg("%s: relative L2 %.2e, loss %.17g, of one batch %.17g", (*m)->name,
                     relative_l2(found, expected, f.gradient_count), sum, loss);
        }
        free(found);
        free(expected);
        step_report_free(&report);
    }
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_micro_batches_add_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
