// Samplers of columns: the probability of every set that can be drawn, against what methods/methods.md says of each
// column; that draws come so often; and the factors that go with them.
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
    for (uint32_t c = 0; c < K; c++) {
        if (bits >> c & 1) {
            set.items[count++] = c;
        }
    }
    index_list_resize(&set, count);
    return set;
}

// Of column i, counted from 0, where `taken` to its right were.
static double probability(const struct spaco_options *o, size_t i, size_t taken)
{
    double t = (double)o->budget, least = o->minimum > 0 ? o->minimum : t / (2.0 * K);
    double even = (t - (double)taken) / (double)(i + 1);
    return o->sampler == SAMPLER_BERNOULLI ? t / K
           : o->sampler == SAMPLER_UNIFORM ? fmax(even, 0)
                                           : fmin(fmax(even, least), 1);
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
    for (size_t j = draw->columns.count, taken = 0; j-- > 0; taken++) {
        double p = o->sampler == SAMPLER_SEQUENTIAL ? probability(o, draw->columns.items[j], taken)
                                                    : (double)o->budget / K;
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
        for (size_t j = 0; j < draw.columns.count; j++) {
            bits |= 1u << draw.columns.items[j];
        }
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

// Of all sets, and of columns too many for that the binomial distribution.
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
                size_t most = K + 1;
                while (most > 0 && beyond + of[most] <= 1e-6)
                    beyond += of[most--];
                assert_int_equal(sampler_most_drawn(&options, K), most);
            }
    struct spaco_options options = {.budget = 100, .sampler = SAMPLER_BERNOULLI};
    double beyond = 0;
    size_t most = 1000;
    for (;; most--) {
        double n = (double)most,
               log_mass = lgamma(1001) - lgamma(n + 1) - lgamma(1001 - n) + n * log(0.1) + (1000 - n) * log(0.9);
        beyond += exp(log_mass);
        if (beyond > 1e-6)
            break;
    }
    assert_int_equal(sampler_most_drawn(&options, 1000), most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sets_have_their_probabilities),
                                       cmocka_unit_test(few_draws_have_more)};
    return cmocka_run_group_tests_name("samplers", tests, NULL, NULL);
}
