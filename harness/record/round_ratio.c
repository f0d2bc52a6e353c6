#include "harness/record/round_ratio.h"
#include <math.h>
#include <stdlib.h>

struct shift round_ratio(const double *times, const double *over, size_t rounds)
{
    double *logs = malloc((rounds + 1) * sizeof *logs);
    CHECK(logs);
    for (size_t i = 0; i < rounds; i++)
        logs[i] = log(times[i] / over[i]);
    struct sample_mean mean = sample_mean(logs, rounds);
    free(logs);
    return sample_ratio(mean.estimate, sample_half_interval(mean, rounds, 0));
}

struct shift round_ratio_last(const struct number_list *times, const struct number_list *over)
{
    size_t rounds = times->count < over->count ? times->count : over->count;
    return round_ratio(times->items + times->count - rounds, over->items + over->count - rounds, rounds);
}
