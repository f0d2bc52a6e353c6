// Quantisation: the published levels, the nearest codes, and the maximum rounding error.
#include "kernels/base/random.h"
#include "kernels/device/quantisation.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static double normal_below(double z)
{
    return erfc(-z / sqrt(2)) / 2;
}

// QLoRA's construction: 8 quantiles of a normal distribution above 0 and 7 below, evenly spaced in probability from
// 0.9677083 to 1/2, over the largest of them.
static void nf4_has_the_published_levels(void **state)
{
    (void)state;
    double outermost = 0.9677083, low = 0, high = 5;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        *(normal_below(middle) < outermost ? &low : &high) = middle;
    }
    for (unsigned code = 0; code < NF4_LEVELS; code++) {
        double inwards = outermost - 0.5, above = outermost - inwards * (15 - code) / 8;
        double expected = code > 7 ? above : code == 7 ? 0.5 : 1 - (outermost - inwards * code / 7);
        assert_true(fabs(normal_below(nf4_level(code) * low) - expected) < 5e-8);
    }
    assert_true(nf4_level(0) == -1 && nf4_level(7) == 0 && nf4_level(15) == 1);
    assert_true(nf4_level(1) == -0.6961928009986877f && nf4_level(14) == 0.7229568362236023f);
}

// Eight codes of four bits to a word, or four of eight.
static void words_are_full(void **state)
{
    (void)state;
    for (size_t count = 1; count < 70; count++) {
        assert_int_equal(quantised_words(QUANTISATION_NF4, count), count / 8 + (count % 8 > 0));
        assert_int_equal(quantised_words(QUANTISATION_INT8, count), count / 4 + (count % 4 > 0));
    }
}

enum { MAX = 1000 };

struct quantised {
    uint32_t words[MAX];
    float scales[MAX];
    double values[MAX];
};

static void there_and_back(struct quantised *found, enum quantisation q, const double *values, size_t count,
                           enum dtype rounding)
{
    quantise(q, values, count, found->words, found->scales);
    dequantise(q, found->words, found->scales, count, rounding, found->values);
}

// Every level, scaled by powers of two and their neighbours, in blocks of any length.
static void what_can_be_represented_is_exact(void **state)
{
    (void)state;
    static struct quantised found;
    double values[MAX];
    for (size_t count = 1; count < MAX; count += 37) {
        for (enum quantisation q = QUANTISATION_NF4; q < QUANTISATION_COUNT; q++) {
            for (size_t i = 0; i < count; i++) {
                double scale = ldexp(1, (int)(i / QUANTISATION_BLOCK) - 9);
                int level = (int)(i * 89 % 255) - 127;
                values[i] = q == QUANTISATION_NF4 ? scale * (double)nf4_level((unsigned)(i % 16)) : scale * level;
                if (i % QUANTISATION_BLOCK == 0) // the largest of its block
                    values[i] = q == QUANTISATION_NF4 ? -scale : 127 * scale;
            }
            there_and_back(&found, q, values, count, DTYPE_F64);
            for (size_t i = 0; i < count; i++)
                assert_true(found.values[i] == values[i]);
        }
    }
}

// NF4: half the widest gap between levels, of the largest magnitude. int8: half a step of 1 / 127 of it. And the
// rounding of scale and product to f32.
static void the_error_is_bounded(void **state)
{
    (void)state;
    static struct quantised found;
    double values[MAX], widest = 0;
    for (unsigned code = 1; code < NF4_LEVELS; code++)
        widest = fmax(widest, (double)nf4_level(code) - (double)nf4_level(code - 1));
    const double bounds[] = {[QUANTISATION_NF4] = widest / 2, [QUANTISATION_INT8] = 0.5 / 127};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct random random = random_named(seed, "values");
        random_normals(&random, 0, MAX, 0, pow(10, (double)seed - 10), values);
        for (enum quantisation q = QUANTISATION_NF4; q < QUANTISATION_COUNT; q++) {
            double worst = 0;
            there_and_back(&found, q, values, MAX, DTYPE_F64);
            for (size_t first = 0; first < MAX; first += QUANTISATION_BLOCK) {
                double largest = 0;
                size_t end = first + QUANTISATION_BLOCK < MAX ? first + QUANTISATION_BLOCK : MAX;
                for (size_t i = first; i < end; i++)
                    largest = fmax(largest, fabs(values[i]));
                for (size_t i = first; i < end; i++)
                    worst = fmax(worst, fabs(found.values[i] - values[i]) / largest);
            }
            assert_true(worst <= bounds[q] + 2 * dtype_epsilon(DTYPE_F32));
            assert_true(worst > bounds[q] * 0.9); // reached, or nothing was quantised
        }
    }
}

// No other code of the block would be nearer.
static void codes_are_the_nearest(void **state)
{
    (void)state;
    static struct quantised found;
    double values[MAX];
    struct random random = random_named(3, "values");
    random_normals(&random, 0, MAX, 0, 0.02, values);
    for (enum quantisation q = QUANTISATION_NF4; q < QUANTISATION_COUNT; q++) {
        there_and_back(&found, q, values, MAX, DTYPE_F64);
        int codes = q == QUANTISATION_NF4 ? NF4_LEVELS : 256;
        for (size_t i = 0; i < MAX; i++) {
            double error = fabs(found.values[i] - values[i]), scale = found.scales[i / QUANTISATION_BLOCK];
            for (uint32_t code = 0; (int)code < codes; code++) {
                double other = scale * (double)quantised_level(q, code, 0);
                assert_true(error <= fabs(other - values[i]) + 2 * dtype_epsilon(DTYPE_F32) * 127 * scale);
            }
        }
    }
}

static void zeros_and_what_is_no_number(void **state)
{
    (void)state;
    static struct quantised found;
    for (enum quantisation q = QUANTISATION_NF4; q < QUANTISATION_COUNT; q++) {
        double values[2 * QUANTISATION_BLOCK] = {0};
        there_and_back(&found, q, values, 2 * QUANTISATION_BLOCK, DTYPE_BF16);
        for (size_t i = 0; i < 2 * QUANTISATION_BLOCK; i++)
            assert_true(found.values[i] == 0);
        values[1] = NAN, values[QUANTISATION_BLOCK] = 1, values[2 * QUANTISATION_BLOCK - 1] = 1e-300;
        there_and_back(&found, q, values, 2 * QUANTISATION_BLOCK, DTYPE_BF16);
        for (size_t i = 0; i < QUANTISATION_BLOCK; i++)
            assert_true(isnan(found.values[i]));
        assert_true(found.values[QUANTISATION_BLOCK] == 1 && found.values[2 * QUANTISATION_BLOCK - 1] == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nf4_has_the_published_levels),
        cmocka_unit_test(words_are_full),
        cmocka_unit_test(what_can_be_represented_is_exact),
        cmocka_unit_test(the_error_is_bounded),
        cmocka_unit_test(codes_are_the_nearest),
        cmocka_unit_test(zeros_and_what_is_no_number),
    };
    return cmocka_run_group_tests_name("quantisation", tests, NULL, NULL);
}
