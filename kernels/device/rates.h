// Rates: how fast a device was seen to run each operation at each shape, and the time of one that lies between.
// By name: GEMM, over m, n and k, as gemm_nt, gemm_nn and gemm_tn by what is transposed; attention_forward and
// attention_backward over queries, keys per query row (keys / queries) and the head dimension; both in counted
// FLOPs per second. All other operations as in the device's table, over the bytes they move, in bytes per second.
//
// Cards' rates (harness/calibrate/card_rates.h) tell more apart. Attention has two rates, over queries and head
// dimension, in FLOPs that are done: attention_forward_rectangle of keys that every query of a block sees, and
// attention_forward_causal of a square block on the diagonal, whose rate rises no faster than its side; longer
// queries are cut into blocks of the longest one. attention_forward_f32 is that of the device's own kernels. A GEMM
// with a side of at most RATE_NARROW has gemm_narrow, over bytes.
#pragma once
#include "kernels/device/observer.h"

#define RATE_DIMENSIONS 3
#define RATE_POINTS     8 // of a dimension
#define RATE_VALUES     (RATE_POINTS * RATE_POINTS * RATE_POINTS)
#define RATES_MAX       28
#define RATE_NARROW     64 // LoRA's rank

// One operation: its counted FLOPs, and its operands' bytes, those of updated tensors twice. Of the FLOPs, those of
// f32 at a rate of their own, as counted and as they are done. glue_bytes: moved besides the operands. Kernels
// after the first one are further launches.
struct cost {
    double flops, bytes, f32_counted, f32_done, glue_bytes, further_launches;
    // Attention's: FLOPs that are done, also for keys that take no gradient; those of a query and a key, over all
    // heads and sequences; whether the last key that a query sees is its own; and the share of the device that its
    // tiles of queries fill.
    double done, pair_flops, fill;
    bool causal;
};

// A grid: values[i][j][k] at axes[0][i], axes[1][j], axes[2][k], as far as there are dimensions.
struct rate {
    char operation[32];
    size_t dimensions, counts[RATE_DIMENSIONS];
    double axes[RATE_DIMENSIONS][RATE_POINTS]; // rising
    double values[RATE_VALUES];                // per second
};

struct rates {
    size_t count; // 0: none were measured
    struct rate items[RATES_MAX];
    // Of the times at a point, as they were, over its own, all points together: nine in ten lie between the two.
    double low, high;
    double reference_kernel_s; // what harness/machine/reference_kernel.h took meanwhile; 0: not known
    // In a step an operation takes so much longer for each byte that it moves, for others have used the caches
    // since its own last run (harness/calibrate/calibrate_steps.h); 0: not known.
    double s_per_byte;
    // A card's, which its tables leave out; 0: the tables have it. Every operation takes launch_s besides, and GEMM
    // and attention no less than their bytes do.
    double launch_s, bytes_per_s;
    // The power limit: steps of more FLOPs a second than this, by the tables, take `factor` times as long, but none
    // for which the limit would be kept. 0: none.
    struct power_limit {
        double flops_per_s, factor;
    } power;
    bool scaled; // another card's, by the ratio of peaks
};

// The table of a range's operation, and where in it the range lies; NULL: it has none.
const struct rate *rates_find(const struct rates *rates, const struct range *range, double bytes,
                              double at[RATE_DIMENSIONS]);
// Between points linear in the logarithms of shape and rate, beyond the outermost ones constant.
double rate_at(const struct rate *rate, const double at[RATE_DIMENSIONS]);
// Seconds of an operation in a step; 0: it has no rate. least: a lower bound, however it is cut.
double rates_seconds(const struct rates *rates, const struct range *range, const struct cost *cost, bool min);
// Seconds of a step that takes so long without a power limit, which rise with both. rates: NULL: the same.
double rates_limited_s(const struct rates *rates, double seconds, double flops);
// Seconds of what was counted on the device since its clock began: until all queues are done, within the power
// limit.
double device_estimate_s(const struct device *device);
// The rate of that name; NULL: none.
const struct rate *rates_named(const struct rates *rates, const char *name);
// Whether an operation over more rows at once takes no more time than the same in parts.
bool rates_rise(const struct rates *rates);
