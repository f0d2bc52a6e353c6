#include "harness/results/time_samples.h"
#include "harness/results/rank_test.h"
#include <math.h>
#include <stdlib.h>

#define COUNTS_LEAST 4 // samples that a rank test needs

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const struct time_run *run)
{
    return sample_quantile(run->ms, run->count, 0.5);
}

struct time_samples time_samples_pool(const struct time_run *runs, size_t run_count)
{
    struct time_samples samples = {.runs = run_count};
    double fastest = INFINITY;
    for (size_t i = 0; i < run_count; i++) {
        fastest = fmin(fastest, median_of(&runs[i]));
        samples.taken += runs[i].count;
    }
    for (size_t i = 0; i < run_count; i++)
        samples.disturbed += median_of(&runs[i]) > TIME_DISTURBED * fastest;
    samples.ms = run_count ? runs[0].ms : NULL;
    samples.count = samples.taken;
    if (run_count > 1) {
        size_t half = (samples.taken + 1) / 2;
        qsort(runs[0].ms, samples.taken, sizeof *runs[0].ms, by_value);
        samples.count = half > COUNTS_LEAST ? half : samples.taken < COUNTS_LEAST ? samples.taken : COUNTS_LEAST;
    }
    return samples;
}
