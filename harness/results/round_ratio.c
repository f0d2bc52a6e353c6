#include "harness/results/round_ratio.h"
#include "harness/results/student_t.h"
#include <math.h>

struct shift round_ratio(const double *times, const double *over, size_t rounds)
{
    double mean = 0, squares = 0, count = (double)rounds;
    for (size_t i = 0; i < rounds; i++)
        mean += log(times[i] / over[i]) / count;
    for (size_t i = 0; i < rounds; i++)
        squares += pow(log(times[i] / over[i]) - mean, 2);
    double error = INFINITY;
    if (rounds > 1)
        error = student_t_quantile(SAMPLE_LEVEL, rounds - 1) * sqrt(squares / (count - 1) / count);
    return (struct shift){exp(mean), exp(mean - error), exp(mean + error)};
}

struct shift round_ratio_last(const struct number_list *times, const struct number_list *over)
{
    size_t rounds = times->count < over->count ? times->count : over->count;
    return round_ratio(times->items + times->count - rounds, over->items + over->count - rounds, rounds);
}
