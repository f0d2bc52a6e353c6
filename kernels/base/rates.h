// Rates: how fast a device was seen to run each operation at each shape, and the time of one that lies between.
// By name: GEMM, over m, n and k, as gemm_nt, gemm_nn and gemm_tn by what is transposed; attention_forward and
// attention_backward over queries, keys per query row (keys / queries) and the head dimension; both in counted
// FLOPs per second. All other operations as in the device's table, over the bytes they move, in bytes per second.
#pragma once
#include "kernels/base/observer.h"

#define RATE_DIMENSIONS 3
#define RATE_POINTS     8 // of a dimension
#define RATE_VALUES     (RATE_POINTS * RATE_POINTS * RATE_POINTS)
#define RATES_MAX       28

// A grid: values[i][j][k] at axes[0][i], axes[1][j], axes[2][k], as far as there are dimensions.
struct rate {
    char operation[24];
    size_t dimensions, counts[RATE_DIMENSIONS];
    double axes[RATE_DIMENSIONS][RATE_POINTS]; // rising
    double values[RATE_VALUES];                // per second
};

struct rates {
    size_t count; // 0: none were measured
    struct rate items[RATES_MAX];
    // Of the times at a point, as they were, over its own, all points together: nine in ten lie between the two.
    double low, high;
    double yardstick_s; // what harness/run/yardstick.h took meanwhile; 0: not known
    // In a step an operation takes so much longer for each byte that it moves, for others have used the caches
    // since its own last run (harness/run/calibrate_steps.h); 0: not known.
    double s_per_byte;
};

// The table of a range's operation, and where in it the range lies; NULL: it has none.
const struct rate *rates_find(const struct rates *rates, const struct range *range, double bytes,
                              double at[RATE_DIMENSIONS]);
// Between points linear in the logarithms of shape and rate, beyond the outermost ones constant.
double rate_at(const struct rate *rate, const double at[RATE_DIMENSIONS]);
// Seconds of an operation in a step; 0: it has no rate.
double rates_seconds(const struct rates *rates, const struct range *range, double flops, double bytes);
// The largest value of all tables of FLOPs, or of bytes.
double rates_peak(const struct rates *rates, bool of_flops);
