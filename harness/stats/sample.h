// Sample: statistics of a few random values.
#pragma once
#include <stddef.h>

// Intervals are of 95 %.
#define SAMPLE_LEVEL 0.05

// An estimate and its interval; infinite without one.
struct shift {
    double estimate, low, high;
};

// For qsort, of doubles.
int sample_by_value(const void *a, const void *b);
// The quantile at the fraction, interpolated between neighbours. count > 0.
double sample_quantile(const double *values, size_t count, double fraction);

// The mean of values and their standard deviation, infinite for a single value.
struct sample_mean {
    double estimate, deviation;
    size_t count;
};
struct sample_mean sample_mean(const double *values, size_t count);
// Half of Student's interval (1908) for the mean over `count` such values, with a standard error of at least
// error_min; infinite for one value.
double sample_half_interval(struct sample_mean mean, size_t count, double error_min);
// The exponentials of an estimate and its interval.
struct shift sample_ratio(double log_ratio, double half_interval);
