// Tests of harness/rank_test: p-values against published tables, enumeration and hand calculation; intervals
// against what the test itself rejects.
#include "harness/results/sample.h"
#include "kernels/base/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define VALUES(...)  ((const double[]){__VA_ARGS__}), COUNT(((const double[]){__VA_ARGS__}))

static void expect_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("expected %.15g, found %.15g", expected, found);
}

static struct rank_test tested(const double *a, size_t a_count, const double *b, size_t b_count)
{
    struct rank_test test;
    rank_test(&test, a, a_count, b, b_count, 1);
    return test;
}

// 1 .. n, and m values that are the larger in u pairs: each beats as many of the n as it may until u are used up.
static struct rank_test with_u(size_t n, size_t m, size_t u)
{
    double a[32], b[32];
    for (size_t i = 0; i < n; i++)
        a[i] = (double)(i + 1);
    for (size_t j = 0; j < m; j++) {
        size_t beats = u < n ? u : n;
        u -= beats;
        b[j] = (double)beats + 0.5 + 1e-3 * (double)j;
    }
    return tested(a, n, b, m);
}

// Two-sided p of the number of pairs: from the tables of Mann & Whitney (1947), whose one-sided probabilities for
// samples of 3, 4 and 5 (their table I) are exact to three digits, and from the count of arrangements.
static void p_is_that_of_the_published_tables(void **state)
{
    (void)state;
    static const struct {
        size_t n, m, u;
        double one_sided;
    } cases[] = {{3, 3, 0, 0.050}, {3, 3, 1, 0.100}, {3, 3, 2, 0.200}, {3, 3, 3, 0.350}, {3, 3, 4, 0.500},
                 {4, 4, 0, 0.014}, {4, 4, 1, 0.029}, {4, 4, 2, 0.057}, {4, 4, 3, 0.100}, {4, 4, 4, 0.171},
                 {4, 4, 5, 0.243}, {5, 5, 0, 0.004}, {5, 5, 1, 0.008}, {5, 5, 2, 0.016}, {5, 5, 3, 0.028},
                 {5, 5, 4, 0.048}, {5, 5, 5, 0.075}, {5, 3, 0, 0.018}, {5, 3, 2, 0.071}, {5, 4, 3, 0.056}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rank_test test = with_u(cases[i].n, cases[i].m, cases[i].u);
        expect_near(test.u, (double)cases[i].u, 0);
        expect_near(test.p, fmin(2 * cases[i].one_sided, 1), 2 * 0.0006);
        // The same distance on the other side is as likely.
        expect_near(with_u(cases[i].n, cases[i].m, cases[i].n * cases[i].m - cases[i].u).p, test.p, 1e-14);
    }
    expect_near(with_u(5, 5, 0).p, 2.0 / 252, 1e-15);
    expect_near(with_u(5, 5, 2).p, 8.0 / 252, 1e-15);
    expect_near(with_u(10, 10, 0).p, 2.0 / 184756, 1e-17);
    // The critical values of the usual table, two-sided 0.05: u 23 at 10 and 10, 127 at 20 and 20.
    assert_true(with_u(10, 10, 23).p <= 0.05 && with_u(10, 10, 24).p > 0.05);
    assert_true(with_u(20, 20, 127).p <= 0.05 && with_u(20, 20, 128).p > 0.05);
    expect_near(rank_test_least_p(5, 5, 1), 2.0 / 252, 1e-12);
    expect_near(rank_test_least_p(4, 4, 1), 2.0 / 70, 1e-12);
    expect_near(rank_test_least_p(3, 3, 1), 0.1, 1e-12);
    expect_near(rank_test_least_p(1, 1, 1), 1, 1e-12);
}

// p by going through every choice of which values are b's.
static double enumerated_p(const double *values, size_t count, size_t b_count)
{
    double *twice = calloc(count, sizeof *twice), far = 0, all = 0,
           expected = (double)b_count * (double)(count + 1);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            twice[i] += values[j] < values[i] ? 2 : values[j] == values[i] ? 1 : 0;
    double observed = 0;
    for (size_t i = count - b_count; i < count; i++)
        observed += twice[i] + 1;
    for (unsigned choice = 0; choice < 1u << count; choice++) {
        double sum = 0;
        if ((size_t)__builtin_popcount(choice) != b_count)
            continue;
        for (size_t i = 0; i < count; i++)
            sum += choice >> i & 1 ? twice[i] + 1 : 0;
        all++;
        far += fabs(sum - expected) >= fabs(observed - expected);
    }
    free(twice);
    return far / all;
}

static void p_with_ties_is_that_of_every_arrangement(void **state)
{
    (void)state;
    struct random random = random_named(1, "ties");
    for (uint64_t try = 0; try < 60; try++) {
        double values[13];
        size_t a_count = 2 + random_below(&random, 100 * try, 5),
               b_count = 2 + random_below(&random, 100 * try + 1, 6);
        for (size_t i = 0; i < a_count + b_count; i++)
            values[i] = (double)random_below(&random, 100 * try + 2 + i, 2 + try % 6);
        struct rank_test test = tested(values, a_count, values + a_count, b_count);
        expect_near(test.p, enumerated_p(values, a_count + b_count, b_count), 1e-12);
    }
}

static void equal_samples_differ_in_nothing(void **state)
{
    (void)state;
    struct rank_test test = tested(VALUES(3, 3, 3, 3, 3), VALUES(3, 3, 3, 3, 3));
    expect_near(test.p, 1, 0);
    expect_near(test.u, 12.5, 0);
    assert_true(test.shift.estimate == 0 && test.shift.low == 0 && test.shift.high == 0);
}

// Large samples go by the normal approximation, which must continue where the exact distribution ends.
static void normal_approximation_continues_the_exact_p(void **state)
{
    (void)state;
    double a[200], b[200];
    struct random random = random_named(2, "normal");
    for (size_t i = 0; i < 200; i++) {
        a[i] = random_normal(&random, i);
        b[i] = random_normal(&random, 1000 + i) + 0.6;
    }
    struct rank_test exact = tested(a, 25, b, 25), near = tested(a, 26, b, 25);
    assert_true(exact.p < 0.5 && near.p > exact.p / 2 && near.p < exact.p * 2);
    // By hand: u = 0 of 30 and 30, mean 450, variance 30 * 30 * 61 / 12 = 4575, continuity 0.5.
    for (size_t i = 0; i < 30; i++) {
        a[i] = (double)i + 100;
        b[i] = (double)i;
    }
    struct rank_test apart = tested(a, 30, b, 30);
    expect_near(apart.p / erfc(449.5 / sqrt(2 * 4575.0)), 1, 1e-12);
    // With all values in two groups of ties: variance 900 / 12 * (61 - 2 * (30^3 - 30) / (60 * 59)).
    for (size_t i = 0; i < 30; i++) {
        a[i] = 1;
        b[i] = 2;
    }
    struct rank_test tied = tested(a, 30, b, 30);
    double variance = 75 * (61 - 2 * 26970.0 / 3540);
    expect_near(tied.p / erfc(449.5 / sqrt(2 * variance)), 1, 1e-12);
    for (size_t i = 0; i < 60; i++)
        a[i] = b[i] = 7;
    expect_near(tested(a, 60, b, 60).p, 1, 0);
}

static void shift_by_hand(void **state)
{
    (void)state;
    struct rank_test test = tested(VALUES(4, 1, 2), VALUES(6, 3, 7));
    expect_near(test.shift.estimate, 3, 0);                       // of -1 1 2 2 3 4 5 5 6
    assert_true(isinf(test.shift.low) && isinf(test.shift.high)); // 3 and 3 can reject nothing
    // 5 and 5: u = 2 has p 8 / 252, u = 3 has 14 / 252: the interval is from the 3rd to the 23rd of 25 differences.
    test = tested(VALUES(1, 2, 3, 4, 5), VALUES(11, 32, 53, 74, 95));
    expect_near(test.shift.low, 8, 0);   // 6 7 8 9 10 27 ...
    expect_near(test.shift.high, 92, 0); // ... 90 91 92 93 94
    expect_near(test.shift.estimate, 50, 0);
    // An even number of differences.
    expect_near(tested(VALUES(0, 0), VALUES(1, 4)).shift.estimate, 2.5, 0);
}

// A shift is in the interval if the samples, shifted back by it, are not rejected.
static void interval_holds_what_the_test_does_not_reject(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{4, 4}, {5, 5}, {5, 9}, {12, 7}, {20, 20}, {40, 45}};
    struct random random = random_named(3, "interval");
    for (size_t k = 0; k < COUNT(sizes); k++) {
        size_t n = sizes[k][0], m = sizes[k][1];
        double a[64], b[64], moved[64];
        for (size_t i = 0; i < n; i++)
            a[i] = random_normal(&random, 1000 * k + i);
        for (size_t j = 0; j < m; j++)
            b[j] = 1 + random_normal(&random, 1000 * k + 500 + j);
        struct shift shift = tested(a, n, b, m).shift;
        assert_true(shift.low < shift.estimate && shift.estimate < shift.high);
        const double edges[] = {shift.low - 1e-9, shift.low + 1e-9, shift.high - 1e-9, shift.high + 1e-9};
        for (size_t e = 0; e < 4; e++) {
            for (size_t j = 0; j < m; j++)
                moved[j] = b[j] - edges[e];
            bool rejected = tested(a, n, moved, m).p <= SAMPLE_LEVEL;
            bool inside = e == 1 || e == 2;
            if (rejected == inside && k + 1 < COUNT(sizes)) // the approximation may be off by one rank
                fail_msg("%zu and %zu, edge %zu: p %g", n, m, e, tested(a, n, moved, m).p);
        }
    }
}

static void interval_covers_the_true_shift(void **state)
{
    (void)state;
    struct random random = random_named(4, "coverage");
    uint64_t draw = 0;
    size_t covered = 0, tries = 2000;
    for (size_t try = 0; try < tries; try++) {
        double a[8], b[8];
        for (size_t i = 0; i < 8; i++) {
            a[i] = exp(random_normal(&random, draw++)); // far from normal
            b[i] = exp(random_normal(&random, draw++)) + 2;
        }
        struct shift shift = tested(a, 8, b, 8).shift;
        covered += shift.low <= 2 && 2 <= shift.high;
    }
    // 1 - 2 * P(u <= 13) = 0.9501 for 8 and 8; three standard deviations of 2000 tries are 0.015.
    expect_near((double)covered / (double)tries, 0.9501, 0.015);
}

// Makes blocks comparable: less the mean of all values of each.
static void align(double *a, size_t a_count, double *b, size_t b_count, size_t blocks)
{
    size_t m = a_count / blocks, n = b_count / blocks;
    for (size_t block = 0; block < blocks; block++) {
        double sum = 0;
        for (size_t i = 0; i < m; i++)
            sum += a[block * m + i];
        for (size_t j = 0; j < n; j++)
            sum += b[block * n + j];
        for (size_t i = 0; i < m; i++)
            a[block * m + i] -= sum / (double)(m + n);
        for (size_t j = 0; j < n; j++)
            b[block * n + j] -= sum / (double)(m + n);
    }
}

// p by going through every choice, in every block, of which of its values are b's. a and b: [blocks][m],
// [blocks][n]
static double enumerated_block_p(const double *a, size_t m, const double *b, size_t n, size_t blocks)
{
    size_t size = m + n, count = size * blocks;
    double values[16], twice[16], far = 0, all = 0, expected = (double)(n * blocks) * (double)(count + 1),
                                  observed = 0;
    for (size_t k = 0; k < count; k++)
        values[k] = k % size < m ? a[k / size * m + k % size] : b[k / size * n + k % size - m];
    for (size_t i = 0; i < count; i++) {
        twice[i] = 1;
        for (size_t j = 0; j < count; j++)
            twice[i] += values[j] < values[i] ? 2 : values[j] == values[i] ? 1 : 0;
        observed += i % size < m ? 0 : twice[i];
    }
    for (unsigned choice = 0; choice < 1u << count; choice++) {
        bool allowed = true;
        double sum = 0;
        for (size_t block = 0; block < blocks; block++)
            allowed &= (size_t)__builtin_popcount(choice >> (block * size) & ((1u << size) - 1)) == n;
        for (size_t i = 0; i < count && allowed; i++)
            sum += choice >> i & 1 ? twice[i] : 0;
        all += allowed;
        far += allowed && fabs(sum - expected) >= fabs(observed - expected);
    }
    return far / all;
}

static void p_of_blocks_is_that_of_every_exchange_within_them(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {{1, 1, 8}, {1, 2, 5}, {2, 2, 4}, {3, 1, 3}, {5, 6, 1}};
    struct random random = random_named(5, "blocks");
    for (uint64_t try = 0; try < 50; try++) {
        const size_t *size = sizes[try % COUNT(sizes)], m = size[0], n = size[1], blocks = size[2];
        double a[16], b[16];
        for (size_t i = 0; i < 16; i++) {
            a[i] = (double)random_below(&random, 100 * try + i, 9) + 10 * (double)(i / m);
            b[i] = (double)random_below(&random, 100 * try + 50 + i, 9 + try % 4) + 10 * (double)(i / n);
        }
        align(a, m * blocks, b, n * blocks, blocks);
        struct rank_test test;
        rank_test(&test, a, m * blocks, b, n * blocks, blocks);
        expect_near(test.p, enumerated_block_p(a, m, b, n, blocks), 1e-12);
    }
    expect_near(rank_test_least_p(5, 5, 5), 2.0 / 32, 1e-12);
    expect_near(rank_test_least_p(6, 6, 6), 2.0 / 64, 1e-12);
    expect_near(rank_test_least_p(10, 10, 5), 2.0 / 7776, 1e-12);
}

// Pairs whose conditions differ a thousandfold: the difference within pairs is found to the noise, and its interval
// holds what the test does not reject. Without blocks nothing can be told.
static void blocks_take_out_what_both_samples_share(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{1, 6}, {1, 12}, {1, 24}, {2, 6}, {1, 60}};
    struct random random = random_named(6, "pairs");
    for (size_t k = 0; k < COUNT(sizes); k++) {
        size_t m = sizes[k][0], blocks = sizes[k][1], count = m * blocks;
        double a[64], b[64], moved[64], kept[64];
        for (size_t i = 0; i < count; i++) {
            double level = 7 * random_normal(&random, 1000 * k + i / m);
            a[i] = level + 0.05 * random_normal(&random, 1000 * k + 300 + i);
            b[i] = level + 1 + 0.05 * random_normal(&random, 1000 * k + 600 + i);
        }
        struct shift without = tested(a, count, b, count).shift;
        memcpy(kept, a, sizeof a);
        memcpy(moved, b, sizeof b);
        align(kept, count, moved, count, blocks);
        struct rank_test test;
        rank_test(&test, kept, count, moved, count, blocks);
        assert_true(test.p <= SAMPLE_LEVEL);
        expect_near(test.shift.estimate, 1, 0.06);
        assert_true(test.shift.low > 0.85 && test.shift.low < test.shift.estimate);
        assert_true(test.shift.high < 1.15 && test.shift.high > test.shift.estimate);
        assert_true(without.high - without.low > 2 || isinf(without.low));
        const double edges[] = {test.shift.low - 1e-9, test.shift.low + 1e-9, test.shift.high - 1e-9,
                                test.shift.high + 1e-9};
        for (size_t e = 0; e < 4 && m == 1 && k + 1 < COUNT(sizes); e++) {
            memcpy(kept, a, sizeof a);
            for (size_t i = 0; i < count; i++)
                moved[i] = b[i] - edges[e];
            align(kept, count, moved, count, blocks);
            struct rank_test at_edge;
            rank_test(&at_edge, kept, count, moved, count, blocks);
            assert_int_equal(at_edge.p <= SAMPLE_LEVEL, e == 0 || e == 3);
        }
    }
}

static void intervals_of_blocks_cover_the_true_shift(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {{1, 1, 10}, {2, 2, 5}, {1, 2, 6}, {2, 2, 20}};
    struct random random = random_named(7, "block coverage");
    uint64_t next = 0;
    for (size_t k = 0; k < COUNT(sizes); k++) {
        size_t m = sizes[k][0], n = sizes[k][1], blocks = sizes[k][2], covered = 0, tries = 1000;
        for (size_t try = 0; try < tries; try++) {
            double a[64], b[64];
            for (size_t i = 0; i < m * blocks; i++)
                a[i] = 3 * (double)(i / m) + random_normal(&random, next++);
            for (size_t j = 0; j < n * blocks; j++)
                b[j] = 3 * (double)(j / n) + random_normal(&random, next++) + 2;
            align(a, m * blocks, b, n * blocks, blocks);
            struct rank_test test;
            rank_test(&test, a, m * blocks, b, n * blocks, blocks);
            covered += test.shift.low <= 2 && 2 <= test.shift.high;
        }
        print_message("%zu and %zu in %zu blocks: %zu of %zu intervals cover\n", m, n, blocks, covered, tries);
        assert_true(covered >= 930); // 950 less three standard deviations
    }
}

static void holm_by_hand(void **state)
{
    (void)state;
    double p[] = {0.04, 0.01, 0.03, 0.005}; // 4 * 0.005, 3 * 0.01, 2 * 0.03, then not below 0.06
    rank_test_holm(p, 4);
    static const double expected[] = {0.06, 0.03, 0.06, 0.02};
    for (size_t i = 0; i < 4; i++)
        expect_near(p[i], expected[i], 1e-15);
    double large[] = {0.9, 0.8};
    rank_test_holm(large, 2);
    assert_true(large[0] == 1 && large[1] == 1);
    rank_test_holm(large, 0);
}

static void sign_test_interval_by_hand(void **state)
{
    (void)state;
    struct shift five = sign_test_interval(VALUES(5, 1, 4, 2, 3));
    assert_true(five.estimate == 3 && isinf(five.low) && isinf(five.high)); // 2 / 32 > 0.05
    struct shift six = sign_test_interval(VALUES(6, 5, 1, 4, 2, 3));
    assert_true(six.estimate == 3.5 && six.low == 1 && six.high == 6); // 2 / 64
    // 12: P(at most 2 below) = (1 + 12 + 66) / 4096 = 0.0193, P(at most 3) = 0.073: the 3rd and the 10th.
    struct shift twelve = sign_test_interval(VALUES(12, 1, 11, 2, 10, 3, 9, 4, 8, 5, 7, 6));
    assert_true(twelve.estimate == 6.5 && twelve.low == 3 && twelve.high == 10);
    struct shift one = sign_test_interval(VALUES(7));
    assert_true(one.estimate == 7 && isinf(one.low));
}

static void quantiles_by_hand(void **state)
{
    (void)state;
    expect_near(sample_quantile(VALUES(5, 1, 3), 0.5), 3, 0);
    expect_near(sample_quantile(VALUES(5, 1, 3), 0.25), 2, 0);
    expect_near(sample_quantile(VALUES(5, 1, 3), 0), 1, 0);
    expect_near(sample_quantile(VALUES(5, 1, 3), 1), 5, 0);
    expect_near(sample_quantile(VALUES(4), 0.75), 4, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p_is_that_of_the_published_tables),
        cmocka_unit_test(p_with_ties_is_that_of_every_arrangement),
        cmocka_unit_test(equal_samples_differ_in_nothing),
        cmocka_unit_test(normal_approximation_continues_the_exact_p),
        cmocka_unit_test(shift_by_hand),
        cmocka_unit_test(interval_holds_what_the_test_does_not_reject),
        cmocka_unit_test(interval_covers_the_true_shift),
        cmocka_unit_test(p_of_blocks_is_that_of_every_exchange_within_them),
        cmocka_unit_test(blocks_take_out_what_both_samples_share),
        cmocka_unit_test(intervals_of_blocks_cover_the_true_shift),
        cmocka_unit_test(holm_by_hand),
        cmocka_unit_test(sign_test_interval_by_hand),
        cmocka_unit_test(quantiles_by_hand),
    };
    return cmocka_run_group_tests_name("rank_test", tests, NULL, NULL);
}
