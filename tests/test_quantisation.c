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
    for (unsigned code = 0; code < FOUR_BIT_LEVELS; code++) {
        double inwards = outermost - 0.5, above = outermost - inwards * (15 - code) / 8;
        double expected = code > 7 ? above : code == 7 ? 0.5 : 1 - (outermost - inwards * code / 7);
        assert_true(fabs(normal_below(nf4_level(code) * low) - expected) < 5e-8);
    }
    assert_true(nf4_level(0) == -1 && nf4_level(7) == 0 && nf4_level(15) == 1);
    assert_true(nf4_level(1) == -0.6961928009986877f && nf4_level(14) == 0.7229568362236023f);
}

// Eight codes of four bits to a word, or four of eight; a scale for 64 weights, or four for 128.
static void words_are_full(void **state)
{
    (void)state;
    for (size_t count = 1; count < 70; count++) {
        assert_int_equal(quantised_words(QUANTISATION_NF4, count), count / 8 + (count % 8 > 0));
        assert_int_equal(quantised_words(QUANTISATION_MXFP4, count), count / 8 + (count % 8 > 0));
        assert_int_equal(quantised_words(QUANTISATION_INT8, count), count / 4 + (count % 4 > 0));
        assert_int_equal(quantised_scale_words(QUANTISATION_INT8, 3 * count), (3 * count + 63) / 64);
        assert_int_equal(quantised_scale_words(QUANTISATION_MXFP4, 3 * count), (3 * count + 127) / 128);
    }
}

enum { MAX = 1000 };

struct quantised {
    uint32_t words[MAX], scales[MAX];
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
                double scale = ldexp(1, (int)(i / quantisation_block(q)) - 9);
                int level = (int)(i * 89 % 255) - 127;
                values[i] = q == QUANTISATION_INT8 ? scale * level : scale * (double)quantised_level(q, i % 16, 0);
                if (i % quantisation_block(q) == 0 && q != QUANTISATION_MXFP4) // the largest of its block
                    values[i] = q == QUANTISATION_NF4 ? -scale : 127 * scale;
            }
            there_and_back(&found, q, values, count, DTYPE_F64);
            for (size_t i = 0; i < count; i++)
                assert_true(found.values[i] == values[i]);
        }
    }
}

// NF4: half the widest gap between levels, of the largest magnitude. int8: half a step of 1 / 127 of it. MXFP4: a
// quarter of it, half the gap from 4 to 6, and that from 6 to 8. And the rounding of scale and product to f32.
static void the_error_is_bounded(void **state)
{
    (void)state;
    static struct quantised found;
    double values[MAX], widest = 0;
    for (unsigned code = 1; code < FOUR_BIT_LEVELS; code++)
        widest = fmax(widest, (double)nf4_level(code) - (double)nf4_level(code - 1));
    const double bounds[] = {
        [QUANTISATION_NF4] = widest / 2, [QUANTISATION_INT8] = 0.5 / 127, [QUANTISATION_MXFP4] = 0.25};
    double reached[QUANTISATION_COUNT] = {0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct random random = random_named(seed, "values");
        random_normals(&random, 0, MAX, 0, pow(10, (double)seed - 10), values);
        for (enum quantisation q = QUANTISATION_NF4; q < QUANTISATION_COUNT; q++) {
            double worst = 0;
            there_and_back(&found, q, values, MAX, DTYPE_F64);
            for (size_t first = 0; first < MAX; first += quantisation_block(q)) {
                double largest = 0;
                size_t end = first + quantisation_block(q) < MAX ? first + quantisation_block(q) : MAX;
                for (size_t i = first; i < end; i++)
                    largest = fmax(largest, fabs(values[i]));
                for (size_t i = first; i < end; i++)
                    worst = fmax(worst, fabs(found.values[i] - values[i]) / largest);
            }
            assert_true(worst <= bounds[q] + 2 * dtype_epsilon(DTYPE_F32));
            reached[q] = fmax(reached[q], worst);
        }
    }
    for (enum quantisation q = QUANTISATION_NF4; q < QUANTISATION_COUNT; q++)
        assert_true(reached[q] > bounds[q] * 0.9); // or nothing was quantised
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
        int codes = q == QUANTISATION_INT8 ? 256 : FOUR_BIT_LEVELS;
        for (size_t i = 0; i < MAX; i++) {
            double error = fabs(found.values[i] - values[i]), scale = quantised_scale(q, found.scales, i);
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
        size_t block = quantisation_block(q);
        double values[QUANTISATION_WHOLE] = {0};
        there_and_back(&found, q, values, 2 * block, DTYPE_BF16);
        for (size_t i = 0; i < 2 * block; i++)
            assert_true(found.values[i] == 0);
        values[1] = NAN, values[block] = 1, values[2 * block - 1] = 1e-300;
        there_and_back(&found, q, values, 2 * block, DTYPE_BF16);
        for (size_t i = 0; i < block; i++)
            assert_true(isnan(found.values[i]));
        assert_true(found.values[block] == 1 && found.values[2 * block - 1] == 0);
    }
}

// Whatever levels of a block are used, from the largest exponent to the smallest, as in gpt-oss's files.
static void mxfp4_is_kept_exactly(void **state)
{
    (void)state;
    static struct quantised found;
    uint32_t words[4], scales[1];
    double values[32];
    for (unsigned bits = 1; bits < 255; bits += bits < 4 || bits > 249 ? 1 : 9) {
        for (unsigned most = 0; most < 8; most++) {
            scales[0] = bits;
            for (unsigned i = 0; i < 4; i++)
                words[i] = 0;
            for (unsigned i = 0; i < 32; i++)
                words[i / 8] |= (i % (most + 1) + i % 2 * 8) << i % 8 * 4;
            dequantise(QUANTISATION_MXFP4, words, scales, 32, DTYPE_F64, values);
            for (unsigned i = 0; i < 32; i++) {
                static const double levels[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
                assert_true(values[i] == (i % 2 ? -1 : 1) * ldexp(levels[i % (most + 1)], (int)bits - 127));
            }
            there_and_back(&found, QUANTISATION_MXFP4, values, 32, DTYPE_F64);
            for (unsigned i = 0; i < 32; i++)
                assert_true(found.values[i] == values[i]);
        }
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
        cmocka_unit_test(mxfp4_is_kept_exactly),
    };
    return cmocka_run_group_tests_name("quantisation", tests, NULL, NULL);
}
