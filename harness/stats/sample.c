#include "harness/stats/sample.h"
#include "harness/stats/student_t.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int sample_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double sample_quantile(const double *values, size_t count, double fraction)
{
    double *sorted = malloc(count * sizeof *sorted);
    CHECK(sorted && count > 0);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, sample_by_value);
    double place = fraction * (double)(count - 1);
    size_t below = (size_t)floor(place), above = below + 1 < count ? below + 1 : below;
    double quantile = sorted[below] + (place - (double)below) * (sorted[above] - sorted[below]);
    free(sorted);
    return quantile;
}

struct sample_mean sample_mean(const double *values, size_t count)
{
    struct sample_mean mean = {.count = count};
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        mean.estimate += values[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += pow(values[i] - mean.estimate, 2);
    mean.deviation = count > 1 ? sqrt(squares / (double)(count - 1)) : INFINITY;
    return mean;
}

double sample_half_interval(struct sample_mean mean, size_t count, double error_min)
{
    double error = fmax(mean.deviation / sqrt((double)count), error_min);
    return count > 1 ? student_t_quantile(SAMPLE_LEVEL, count - 1) * error : INFINITY;
}

struct shift sample_ratio(double log_ratio, double half_interval)
{
    return (struct shift){exp(log_ratio), exp(log_ratio - half_interval), exp(log_ratio + half_interval)};
}
