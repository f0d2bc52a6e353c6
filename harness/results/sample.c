#include "harness/results/sample.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double sample_quantile(const double *values, size_t count, double fraction)
{
    double *sorted = malloc(count * sizeof *sorted);
    CHECK(sorted && count > 0);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    double place = fraction * (double)(count - 1);
    size_t below = (size_t)floor(place), above = below + 1 < count ? below + 1 : below;
    double quantile = sorted[below] + (place - (double)below) * (sorted[above] - sorted[below]);
    free(sorted);
    return quantile;
}
