// Sample: what a few values that differ by chance say.
#pragma once
#include <stddef.h>

// Intervals are of 95 %.
#define SAMPLE_LEVEL 0.05

// An estimate and its interval; without one, low and high are infinite.
struct shift {
    double estimate, low, high;
};

// For qsort, of doubles.
int sample_by_value(const void *a, const void *b);
// The value below which the fraction lies, interpolated between neighbours. count > 0.
double sample_quantile(const double *values, size_t count, double fraction);

// The mean of some values and the standard deviation of one of them, infinite where there is no second.
struct sample_mean {
    double estimate, deviation;
    size_t count;
};
struct sample_mean sample_mean(const double *values, size_t count);
// Half of Student's interval (1908) of the mean, were it over `count` such values and its standard error at least
// error_least; infinite for one value.
double sample_half_interval(struct sample_mean mean, size_t count, double error_min);
// The exponentials of an estimate and of its interval.
struct shift sample_ratio(double log_ratio, double half_interval);
