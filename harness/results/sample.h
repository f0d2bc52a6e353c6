// Sample: what a few values that differ by chance say.
#pragma once
#include <stddef.h>

// Intervals are of 95 %.
#define SAMPLE_LEVEL 0.05

// An estimate and its interval; without one, low and high are infinite.
struct shift {
    double estimate, low, high;
};

// The value below which the fraction lies, interpolated between neighbours. count > 0.
double sample_quantile(const double *values, size_t count, double fraction);
