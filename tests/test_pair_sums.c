// Tests of a pair's difference under the dtype of its sums, against predictable sums in each dtype.
#include "harness/trial/pair_sums.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TOKENS = 20000, PAIRS = 2 };

// Pairs that are alike, in which every row of a sequence has the same log-prob, of which the reference has a part;
// only the first `count` tokens have a target.
static struct record_pair_sums sums_of(size_t count, const double log_probs[2], double of_reference)
{
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_F32, 0, &status);
    struct batch batch;
    struct record_pair_sums sums;
    size_t rows = (size_t)2 * PAIRS * TOKENS;
    int32_t *ids = calloc(rows, sizeof *ids), *targets = calloc(rows, sizeof *targets);
    double *reference = calloc(rows, sizeof *reference), *own = calloc(rows, sizeof *own);
    assert_true(device && ids && targets && reference && own);
    for (size_t i = 0; i < rows; i++) {
        targets[i] = i % TOKENS < count ? 1 : NO_TARGET;
        reference[i] = of_reference * log_probs[i / TOKENS % 2];
        own[i] = log_probs[i % 2]; // a row per token and sequence
    }
    batch_open(&batch, device, ids, targets, TOKENS, (size_t)2 * PAIRS);
    const struct objective *dpo = objective_find("dpo");
    void *settings = options_new(&dpo->options);
    batch_set_objective(&batch, device, dpo, settings, &(struct batch_values){.reference_logprobs = reference});
    struct tensor log_prob = tensor_new(device, rows, 1, DTYPE_F32, CATEGORY_DATA);
    tensor_write(device, log_prob, own);
    pair_sums_of(&sums, device, &batch, log_prob);
    tensor_free(device, &log_prob);
    batch_close(&batch, device);
    options_free(&dpo->options, settings);
    device_close(device);
    free(own);
    free(reference);
    free(targets);
    free(ids);
    return sums;
}

// In bf16, of 8 bits, 256 and 1 are 256, and 128 and 1/2 are 128: such sums stand still there.
static void sums_stand_still_in_bf16(void **state)
{
    (void)state;
    struct record_pair_sums few = sums_of(256, (double[]){-1, -0.5}, 0),
                            many = sums_of(601, (double[]){-1, -0.5}, 0);
    assert_true(few.difference == 128 && few.bf16_error == 0 && few.bf16_once_error == 0);
    assert_true(many.difference == 300.5 && many.bf16_error == 300.5 - 128);
    assert_true(many.bf16_once_error == 0.5); // 601 becomes 600, 300.5 becomes 300
    assert_true(many.f32_error == 0 && many.f64_error == 0);
}

static void each_of_the_four_sums_is_rounded(void **state)
{
    (void)state;
    struct record_pair_sums same = sums_of(601, (double[]){-1, -0.5}, 1),
                            half = sums_of(601, (double[]){-1, -0.5}, 0.5);
    assert_true(same.difference == 0 && same.bf16_error == 0);
    assert_true(half.difference == 150.25);      // (601 - 300.5) - (300.5 - 150.25)
    assert_true(half.bf16_error == 150.25 - 64); // (256 - 128) - (128 - 64)
    float f32 = 0;
    long double exact = 0;
    for (size_t i = 0; i < TOKENS; i++) {
        f32 += -0.1F;
        exact += -0.1F;
    }
    struct record_pair_sums tenths = sums_of(TOKENS, (double[]){-0.1F, 0}, 0);
    assert_true(tenths.f32_error > 1e-3 && fabs(tenths.f32_error - fabs((double)(f32 - exact))) < 1e-12);
    assert_true(tenths.f64_error < 1e-9 && tenths.bf16_error > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_stand_still_in_bf16),
        cmocka_unit_test(each_of_the_four_sums_is_rounded),
    };
    return cmocka_run_group_tests_name("pair sums", tests, NULL, NULL);
}
