// Samplers of chunks: the probability of every possible set, against each chunk's in methods/README.md; the
// frequency of draws; and their factors.
#include "methods/sampler.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define K     5
#define DRAWS 20000

static struct index_list set_of(unsigned bits)
{
    struct index_list set = {0};
    index_list_resize(&set, K);
    size_t count = 0;
    for (uint32_t c = 0; c < K; c++)
        if (bits >> c & 1)
            set.items[count++] = c;
    index_list_resize(&set, count);
    return set;
}

// Probability of chunk i, counted from 0, with `taken` drawn to its right.
static double probability(const struct spaco_options *o, size_t i, size_t taken)
{
    double t = (double)o->budget, min = o->minimum > 0 ? o->minimum : t / (2.0 * K);
    double even = (t - (double)taken) / (double)(i + 1);
    return o->sampler == SAMPLER_BERNOULLI ? t / K
           : o->sampler == SAMPLER_UNIFORM ? fmax(even, 0)
                                           : fmin(fmax(even, min), 1);
}

static double expected(const struct spaco_options *o, unsigned bits)
{
    double product = 1;
    for (size_t i = K, taken = 0; i-- > 0;) {
        bool drawn = bits >> i & 1;
        double p = probability(o, i, taken);
        product *= drawn ? p : 1 - p;
        taken += drawn;
    }
    return fmax(product, 0);
}

static void check_factors(const struct spaco_options *o, const struct draw *draw)
{
    for (size_t j = draw->chunks.count, taken = 0; j-- > 0; taken++) {
        double p =
            o->sampler == SAMPLER_SEQUENTIAL ? probability(o, draw->chunks.items[j], taken) : (double)o->budget / K;
        double capped = fmin(1 / p, o->cap);
        assert_true(fabs(draw->loss_factor[j] * p - 1) < 1e-14);
        assert_true(fabs(draw->kv_factor[j] / (o->compensation == COMPENSATION_CAPPED ? capped
                                               : o->compensation == COMPENSATION_NONE ? 1
                                                                                      : 1 / p) -
                         1) < 1e-14);
    }
}

static void check(struct spaco_options *o)
{
    size_t times[1 << K] = {0};
    double total = 0;
    for (size_t n = 0; n < DRAWS; n++) {
        o->sampler_seed = n;
        struct draw draw = sampler_draw(o, K);
        unsigned bits = 0;
        for (size_t j = 0; j < draw.chunks.count; j++)
            bits |= 1u << draw.chunks.items[j];
        times[bits]++;
        check_factors(o, &draw);
        draw_free(&draw);
    }
    for (unsigned bits = 0; bits < 1 << K; bits++) {
        struct index_list set = set_of(bits);
        double p = sampler_probability(o, K, &set), often = (double)times[bits] / DRAWS;
        assert_true(fabs(p - expected(o, bits)) < 1e-14);
        // The draws are the same in every run: so far apart they would be in one of a million.
        assert_true(fabs(often - p) <= 5 * sqrt(p * (1 - p) / DRAWS) + 1e-12);
        total += p;
        index_list_free(&set);
    }
    assert_true(fabs(total - 1) < 1e-13);
}

static void sets_have_their_probabilities(void **state)
{
    (void)state;
    static const enum sampler samplers[] = {SAMPLER_UNIFORM, SAMPLER_BERNOULLI, SAMPLER_SEQUENTIAL};
    static const enum compensation compensations[] = {COMPENSATION_NONE, COMPENSATION_PAPER, COMPENSATION_CAPPED};
    static const double minimums[] = {0, 0.05, 0.3, 1};
    for (size_t s = 0; s < 3; s++) {
        for (size_t budget = 1; budget <= K; budget += 2) {
            for (size_t m = 0; m < (samplers[s] == SAMPLER_SEQUENTIAL ? 4 : 1); m++) {
                struct spaco_options options = {.budget = budget,
                                                .sampler = samplers[s],
                                                .compensation = compensations[(budget + m) % 3],
                                                .cap = 1.5,
                                                .minimum = minimums[m]};
                check(&options);
            }
        }
    }
}

// Sums over all sets, or for too many chunks by the binomial distribution.
static void few_draws_have_more(void **state)
{
    (void)state;
    static const enum sampler samplers[] = {SAMPLER_UNIFORM, SAMPLER_BERNOULLI, SAMPLER_SEQUENTIAL};
    static const double minimums[] = {0, 1e-4, 0.3, 1};
    for (size_t s = 0; s < 3; s++)
        for (size_t budget = 1; budget <= K; budget++)
            for (size_t m = 0; m < 4; m++) {
                struct spaco_options options = {.budget = budget, .sampler = samplers[s], .minimum = minimums[m]};
                double of[K + 2] = {0}, beyond = 0;
                for (unsigned bits = 0; bits < 1u << K; bits++)
                    of[__builtin_popcount(bits)] += expected(&options, bits);
                size_t max = K + 1;
                while (max > 0 && beyond + of[max] <= 1e-6)
                    beyond += of[max--];
                assert_int_equal(sampler_max_drawn(&options, K), max);
            }
    struct spaco_options options = {.budget = 100, .sampler = SAMPLER_BERNOULLI};
    double beyond = 0;
    size_t max = 1000;
    for (;; max--) {
        double n = (double)max,
               log_mass = lgamma(1001) - lgamma(n + 1) - lgamma(1001 - n) + n * log(0.1) + (1000 - n) * log(0.9);
        beyond += exp(log_mass);
        if (beyond > 1e-6)
            break;
    }
    assert_int_equal(sampler_max_drawn(&options, 1000), max);
}

// How often `sequential` draws n of MANY chunks, from left[n][i] for what chunks i and below add: right to left,
// as it draws.
#define MANY 40
static void distribution(const struct spaco_options *o, double of[MANY + 1])
{
    double t = (double)o->budget, min = o->minimum > 0 ? o->minimum : t / (2.0 * MANY), next[MANY + 1];
    memset(of, 0, (MANY + 1) * sizeof *of);
    of[0] = 1;
    for (size_t i = MANY; i-- > 0; memcpy(of, next, sizeof next)) {
        memset(next, 0, sizeof next);
        for (size_t n = 0; n <= MANY - 1 - i; n++) {
            double p = fmin(fmax((t - (double)n) / (double)(i + 1), min), 1);
            next[n] += of[n] * (1 - p);
            next[n + 1] += of[n] * p;
        }
    }
}

// Pearson's statistic of the counts, cells with less than 10 expected draws joined with the next one; *cells of
// them.
static double chi_square(const double of[MANY + 1], const size_t counts[MANY + 1], size_t *cells)
{
    double statistic = 0, expected = 0, found = 0, left = DRAWS;
    *cells = 0;
    for (size_t n = 0; n <= MANY; n++) {
        expected += of[n] * DRAWS;
        found += (double)counts[n];
        left -= of[n] * DRAWS;
        if (n < MANY && (expected < 10 || left < 10))
            continue;
        statistic += expected > 0 ? (found - expected) * (found - expected) / expected : found > 0 ? INFINITY : 0;
        expected = found = 0;
        ++*cells;
    }
    return statistic;
}

// The draws are the same in every run. A chi-square variable of d degrees of freedom is above d + 2 (d x)^1/2 + 2 x
// with a probability of at most exp(-x) (Laurent and Massart 2000, lemma 1): here of one in a million.
static void sequential_draws_as_many_as_it_should(void **state)
{
    (void)state;
    static const double minimums[] = {0, 1e-3, 0.2, 0.5};
    for (size_t budget = 1; budget <= 31; budget += 10)
        for (size_t m = 0; m < 4; m++) {
            struct spaco_options o = {.budget = budget, .sampler = SAMPLER_SEQUENTIAL, .minimum = minimums[m]};
            double of[MANY + 1], beyond = 0, x = log(1e6);
            size_t counts[MANY + 1] = {0}, cells, max = MANY;
            distribution(&o, of);
            for (o.sampler_seed = 0; o.sampler_seed < DRAWS; o.sampler_seed++) {
                struct draw draw = sampler_draw(&o, MANY);
                counts[draw.chunks.count]++;
                draw_free(&draw);
            }
            double statistic = chi_square(of, counts, &cells), d = (double)cells - 1;
            if (statistic > d + 2 * sqrt(d * x) + 2 * x)
                fail_msg("budget %zu, minimum %g: chi-square %g of %g degrees of freedom", budget, minimums[m],
                         statistic, d);
            while (max > 0 && beyond + of[max] <= 1e-6)
                beyond += of[max--];
            assert_int_equal(sampler_max_drawn(&o, MANY), max);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sets_have_their_probabilities),
                                       cmocka_unit_test(sequential_draws_as_many_as_it_should),
                                       cmocka_unit_test(few_draws_have_more)};
    return cmocka_run_group_tests_name("samplers", tests, NULL, NULL);
}
