// Sums of keys' and values' gradients in bf16 that are rounded stochastically: without bias, where rounding to
// nearest loses what is small beside a sum; by random bits that no thread, segment or cut changes, and that no two
// sums share.
#include "kernels/device/ops.h"
#include "tests/fixture.h"
#include "tests/key_sums.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct device *open_device(void)
{
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    return device;
}

// ---- no bias

enum { KEYS = 64, DIM = 32, ELEMENTS = KEYS * DIM, CALLS = 32, SEEDS = 32 };
static const double addend = 0x1p-10, spacing = 0x1p-7; // an eighth of the spacing of bf16 from 1 on

// Returns grad_v after CALLS queries, each of which adds `addend` to an initial 1: P is 1, and each element of
// grad_o is `addend`.
static double *summed(struct device *device, enum dtype dtype, struct key_rounding rounding)
{
    static const struct {
        size_t rows, cols;
        double value;
    } operands[] = {{1, DIM, 0}, {1, DIM, 0}, {1, 1, 0}, {KEYS, DIM, 0}, {1, DIM, 1}, {1, DIM, 0}};
    enum { Q, O, LOGSUMEXP, K, GRAD_O, GRAD_Q, OPERANDS };
    struct tensor t[OPERANDS], grad[2];
    double *values = malloc(ELEMENTS * sizeof *values);
    assert_non_null(values);
    for (size_t n = 0; n < OPERANDS; n++) {
        t[n] = tensor_new(device, operands[n].rows, operands[n].cols, n == LOGSUMEXP ? DTYPE_F32 : DTYPE_BF16,
                          CATEGORY_ACTIVATIONS);
        for (size_t i = 0; i < ELEMENTS; i++)
            values[i] = addend * operands[n].value;
        tensor_write(device, t[n], values);
    }
    for (size_t i = 0; i < ELEMENTS; i++)
        values[i] = 1;
    for (size_t n = 0; n < 2; n++) {
        grad[n] = tensor_new(device, KEYS, DIM, dtype, CATEGORY_KV_GRADIENTS);
        tensor_write(device, grad[n], values);
    }
    struct key_segment segment = {0, KEYS, grad[0], grad[1], rounding};
    for (size_t i = 0; i < CALLS; i++) {
        struct attention_shape s = {1, KEYS + i, 1, 1, 1, DIM, KEYS, {0}, 0, 0};
        op_attention_backward(device, s, t[GRAD_Q], false, &segment, 1, t[GRAD_O], t[O], t[LOGSUMEXP], t[Q], t[K],
                              t[K]);
    }
    assert_int_equal(device->status.code, STATUS_OK);
    tensor_read(device, grad[1], values);
    for (size_t n = 0; n < OPERANDS; n++)
        tensor_free(device, &t[n]);
    tensor_free(device, &grad[0]);
    tensor_free(device, &grad[1]);
    return values;
}

// The mean of n independent sums has a standard error of s / sqrt(n). A sum's own s is at most that of CALLS
// independent roundings of half a spacing each. All elements and seeds are independent. One element's mean over
// its seeds has a standard error of s / sqrt(SEEDS); in these units, the sum of the squares of all elements' means
// has a chi-square distribution.
static void the_mean_over_seeds_is_the_exact_sum(void **state)
{
    (void)state;
    struct device *device = open_device();
    double *exact = summed(device, DTYPE_F32, (struct key_rounding){0});
    double *nearest = summed(device, DTYPE_BF16, (struct key_rounding){0});
    static double mean[ELEMENTS], squares;
    const double n = (double)ELEMENTS * SEEDS;
    double all = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        double *sums = summed(device, DTYPE_BF16, key_sums_rounding(seed, 0));
        for (size_t i = 0; i < ELEMENTS; i++) {
            double error = sums[i] - exact[i];
            mean[i] += error / SEEDS;
            squares += error * error;
            all += error / n;
        }
        free(sums);
    }
    double s = sqrt(squares / n), chi_square = 0;
    for (size_t i = 0; i < ELEMENTS; i++) {
        assert_true(exact[i] == 1 + CALLS * addend); // which f32 holds
        assert_true(nearest[i] == 1);                // 40 s / sqrt(n) off, and more
        chi_square += mean[i] * mean[i] / (s * s / SEEDS);
    }
    assert_true(s > 0 && s <= sqrt(CALLS) * spacing / 2);
    assert_true(fabs(all) < 4 * s / sqrt(n));
    assert_true(CALLS * addend > 40 * s / sqrt(n));
    if (!(fabs(chi_square - ELEMENTS) < 4 * sqrt(2.0 * ELEMENTS)))
        fail_msg("over %d seeds the means are off by a chi-square of %.1f, not %d", SEEDS, chi_square, ELEMENTS);
    free(exact);
    free(nearest);
    device_close(device);
}

// ---- whose bits

static const struct attention_shape shape = {16, 64, 2, 4, 2, 16, 64, {0}, 0, 0};

static void expect_equal(struct key_sums *found, const struct key_sums *expected)
{
    assert_int_equal(found->count, expected->count);
    assert_memory_equal(found->k, expected->k, found->count * sizeof *found->k);
    assert_memory_equal(found->v, expected->v, found->count * sizeof *found->v);
    key_sums_free(found);
}

static void threads_and_cuts_change_no_bit(void **state)
{
    (void)state;
    struct device *device = open_device();
    struct key_rounding rounding = key_sums_rounding(3, 5);
    struct key_sums expected = key_sums(device, shape, rounding, 0, false, 3);
    int threads = omp_get_max_threads();
    for (int count = 1; count <= 3; count++) {
        omp_set_num_threads(count);
        struct key_sums found = key_sums(device, shape, rounding, 0, false, 3);
        expect_equal(&found, &expected);
    }
    omp_set_num_threads(threads);
    for (int apart = 0; apart < 2; apart++) {
        struct key_sums found = key_sums(device, shape, rounding, 27, apart, 3);
        expect_equal(&found, &expected);
    }
    key_sums_free(&expected);
    device_close(device);
}

static double correlation(const double *x, const double *y, const double *exact, size_t count)
{
    double xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < count; i++) {
        double a = x[i] - exact[i], b = y[i] - exact[i];
        xy += a * b;
        xx += a * a;
        yy += b * b;
    }
    return xy / sqrt(xx * yy);
}

// Errors of the same elements under another seed, tensor, position of the keys or position of the queries.
static void no_two_sums_share_bits(void **state)
{
    (void)state;
    struct device *device = open_device();
    double *exact = summed(device, DTYPE_F32, (struct key_rounding){0});
    struct key_rounding roundings[5];
    for (size_t i = 0; i < 5; i++)
        roundings[i] = key_sums_rounding(i == 1 ? 8 : 7, i == 2 ? 1 : i == 3 ? (size_t)1 << 33 : 0);
    roundings[4].grad_v = roundings[4].grad_k;
    double *sums[5];
    for (size_t i = 0; i < 5; i++)
        sums[i] = summed(device, DTYPE_BF16, roundings[i]);
    for (size_t i = 1; i < 5; i++)
        if (!(fabs(correlation(sums[0], sums[i], exact, ELEMENTS)) < 4 / sqrt(ELEMENTS)))
            fail_msg("case %zu: correlated by %.3f", i, correlation(sums[0], sums[i], exact, ELEMENTS));
    // Neighbouring elements of one sum.
    assert_true(fabs(correlation(sums[0], sums[0] + 1, exact, ELEMENTS - 1)) < 4 / sqrt(ELEMENTS));
    assert_true(fabs(correlation(sums[0], sums[0] + 8, exact, ELEMENTS - 8)) < 4 / sqrt(ELEMENTS));
    assert_true(fabs(correlation(sums[0], sums[0] + DIM, exact, ELEMENTS - DIM)) < 4 / sqrt(ELEMENTS));
    for (size_t i = 0; i < 5; i++)
        free(sums[i]);
    free(exact);
    device_close(device);
}

// ---- a step

// A seed, a walk since the gradients were zeroed, and an update have bits of their own; a walk made again has the
// same.
static void steps_have_bits_of_their_own(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        size_t walk, update;
        bool nearest;
    } cases[] = {{1, 0, 0, false}, {1, 0, 0, false}, {2, 0, 0, false},
                 {1, 1, 0, false}, {1, 0, 1, false}, {1, 0, 0, true}};
    enum { CASES = sizeof cases / sizeof *cases };
    struct fixture f = fixture_default();
    struct step_report report = {0};
    const struct method *seco = method_find("seco");
    void *options = fixture_options(seco, "chunk=4");
    f.dtype = f.rounding = DTYPE_BF16;
    f.narrow = true;
    fixture_open(&f);
    double *gradients[CASES];
    for (size_t i = 0; i < CASES; i++) {
        f.model.kv_gradient_stochastic = !cases[i].nearest;
        f.model.seed = cases[i].seed;
        f.model.micro_batch = 5;
        trainer_zero(&f.trainer);
        assert_int_equal(f.model.micro_batch, 0);
        f.model.micro_batch = cases[i].walk;
        f.model.update = cases[i].update;
        method_step(seco, &f.model, &f.batch, options, &report);
        assert_int_equal(f.model.micro_batch, cases[i].walk + 1);
        gradients[i] = fixture_gradients(&f);
    }
    f.model.update = 0;
    assert_memory_equal(gradients[1], gradients[0], f.gradient_count * sizeof(double));
    for (size_t i = 2; i < CASES; i++)
        assert_memory_not_equal(gradients[i], gradients[0], f.gradient_count * sizeof(double));
    for (size_t i = 0; i < CASES; i++)
        free(gradients[i]);
    options_free(&seco->options, options);
    step_report_free(&report);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_over_seeds_is_the_exact_sum),
        cmocka_unit_test(threads_and_cuts_change_no_bit),
        cmocka_unit_test(no_two_sums_share_bits),
        cmocka_unit_test(steps_have_bits_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
