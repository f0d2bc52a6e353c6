#include "harness/results/time_samples.h"
#include "harness/results/rank_test.h"
#include "kernels/base/status.h"
#include <math.h>
#include <string.h>

#define COUNTS_LEAST 4 // samples that a rank test needs

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static size_t shortest(const struct time_run *runs, size_t run_count)
{
    size_t least = run_count ? runs[0].count : 0;
    for (size_t i = 1; i < run_count; i++)
        least = runs[i].count < least ? runs[i].count : least;
    return least;
}

// The medians of runs whose draws differ could not be compared.
static size_t disturbed_runs(const struct time_run *runs, size_t run_count, size_t draws)
{
    size_t disturbed = 0;
    double fastest = INFINITY, *medians = malloc((run_count + 1) * sizeof *medians);
    CHECK(medians);
    for (size_t i = 0; i < run_count; i++) {
        medians[i] = sample_quantile(runs[i].ms, draws ? draws : runs[i].count, 0.5);
        fastest = fmin(fastest, medians[i]);
    }
    for (size_t i = 0; i < run_count; i++)
        disturbed += medians[i] > TIME_DISTURBED * fastest;
    free(medians);
    return disturbed;
}

static size_t faster_half(double *ms, size_t count)
{
    size_t half = (count + 1) / 2;
    qsort(ms, count, sizeof *ms, by_value);
    return half > COUNTS_LEAST ? half : count < COUNTS_LEAST ? count : COUNTS_LEAST;
}

// The faster half of each draw; their number.
static size_t faster_half_of_draws(const struct time_run *runs, size_t run_count, size_t draws)
{
    size_t half = (run_count + 1) / 2;
    double *all = malloc(draws * run_count * sizeof *all);
    CHECK(all);
    for (size_t d = 0; d < draws; d++) {
        for (size_t i = 0; i < run_count; i++)
            all[d * run_count + i] = runs[i].ms[d];
        qsort(all + d * run_count, run_count, sizeof *all, by_value);
    }
    for (size_t d = 0; d < draws; d++)
        memcpy(runs[0].ms + d * half, all + d * run_count, half * sizeof *all);
    free(all);
    return draws * half;
}

struct time_samples time_samples_pool(const struct time_run *runs, size_t run_count, bool drawn)
{
    struct time_samples samples = {.runs = run_count, .draws = drawn ? shortest(runs, run_count) : 0};
    for (size_t i = 0; i < run_count; i++)
        samples.taken += runs[i].count;
    samples.ms = run_count ? runs[0].ms : NULL;
    samples.disturbed = disturbed_runs(runs, run_count, samples.draws);
    samples.count = samples.draws   ? faster_half_of_draws(runs, run_count, samples.draws)
                    : run_count > 1 ? faster_half(runs[0].ms, samples.taken)
                                    : samples.taken;
    return samples;
}

struct time_samples time_samples_rounds(const struct time_run *runs, size_t run_count)
{
    size_t each = shortest(runs, run_count);
    struct time_samples samples = {.ms = runs[0].ms,
                                   .count = each * run_count,
                                   .runs = run_count,
                                   .rounds = run_count,
                                   .disturbed = disturbed_runs(runs, run_count, 0)};
    for (size_t i = 0; i < run_count; i++) {
        samples.taken += runs[i].count;
        memmove(runs[0].ms + i * each, runs[i].ms, each * sizeof *runs[i].ms);
    }
    return samples;
}

static void keep_draws(struct time_samples *samples, size_t draws)
{
    samples->count = samples->draws ? samples->count / samples->draws * draws : samples->count;
    samples->draws = samples->draws ? draws : 0;
}

void time_samples_match(struct time_samples *a, struct time_samples *b)
{
    size_t draws = a->draws < b->draws ? a->draws : b->draws;
    if (draws) {
        keep_draws(a, draws);
        keep_draws(b, draws);
    }
}

double time_samples_middle(struct time_samples samples)
{
    double sum = 0;
    for (size_t i = 0; i < samples.count; i++)
        sum += samples.ms[i];
    return samples.draws ? sum / (double)samples.count : sample_quantile(samples.ms, samples.count, 0.5);
}
