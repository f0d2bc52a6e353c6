#include "harness/stats/sample.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stdbool.h>
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

// Two-sided probability of a |t| at least this large with `freedom` degrees of freedom, > 0. Exact (Abramowitz &
// Stegun 26.7.3 and 26.7.4).
static double student_t_p(double t, size_t freedom)
{
    bool odd = freedom % 2 != 0;
    double angle = atan(t / sqrt((double)freedom)), cosine = cos(angle);
    double term = odd ? sin(angle) * cosine : sin(angle), sum = 0;
    for (size_t k = odd ? 3 : 2; k <= freedom; k += 2) {
        sum += term;
        term *= cosine * cosine * (double)(k - 1) / (double)k;
    }
    return odd ? 1 - 2 / M_PI * (angle + sum) : 1 - sum;
}

// The t with the probability SAMPLE_LEVEL, by bisection.
static double student_t(size_t freedom)
{
    double low = 0, high = 16; // 12.7 with one degree of freedom, less with more
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(student_t_p(middle, freedom) > SAMPLE_LEVEL ? &low : &high) = middle;
    }
    return high;
}

double sample_half_interval(struct sample_mean mean, size_t count, double error_min)
{
    double error = fmax(mean.deviation / sqrt((double)count), error_min);
    return count > 1 ? student_t(count - 1) * error : INFINITY;
}

struct shift sample_ratio(double log_ratio, double half_interval)
{
    return (struct shift){exp(log_ratio), exp(log_ratio - half_interval), exp(log_ratio + half_interval)};
}
