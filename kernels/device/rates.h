// Rates: measured speeds of each operation at a grid of shapes, and interpolation between them. GEMM has gemm_nt,
// gemm_nn and gemm_tn by transposition, over m, n and k. attention_forward and attention_backward are over queries,
// keys per query (keys / queries) and head dimension. These are in counted FLOPs per second. Other operations are
// named as in the device's table, over bytes moved, in bytes per second.
//
// Rates of cards (harness/calibrate/card_rates.h) are finer. Attention has two, over queries and head dimension, in
// executed FLOPs: attention_forward_rectangle for keys that every query of a block sees, and
// attention_forward_causal for a square block on the diagonal, whose rate rises no faster than its side; longer
// queries are cut into blocks of the longest measured side. attention_forward_f32 is for the device's own kernels.
// A GEMM with a side of at most RATE_NARROW uses gemm_narrow, over bytes.
#pragma once
#include "kernels/device/observer.h"

#define RATE_DIMENSIONS 3
#define RATE_POINTS     8 // per dimension
#define RATE_VALUES     (RATE_POINTS * RATE_POINTS * RATE_POINTS)
#define RATES_MAX       28
#define RATE_NARROW     64 // covers LoRA's ranks

// Cost of an operation: counted FLOPs, bytes of its operands (updated tensors twice), FLOPs run at the f32 rate as
// counted and as executed, further bytes moved (glue), and kernels after the first.
struct cost {
    double flops, bytes, f32_counted, f32_done, glue_bytes, further_launches;
    // For attention: executed FLOPs, also for keys without a gradient; FLOPs per query and key, over all heads and
    // sequences; the share of the device that its tiles fill; whether each query's last key is its own.
    double done, pair_flops, fill;
    bool causal;
};

// A grid: values[i][j][k] at axes[0][i], axes[1][j], axes[2][k], over the used dimensions.
struct rate {
    char operation[32];
    size_t dimensions, counts[RATE_DIMENSIONS];
    double axes[RATE_DIMENSIONS][RATE_POINTS]; // rising
    double values[RATE_VALUES];                // per second
};

struct rates {
    size_t count; // 0: none
    struct rate items[RATES_MAX];
    // Nine in ten measured times at the grid's points lie within [low, high] times the point's time.
    double low, high;
    double reference_kernel_s; // time of harness/machine/reference_kernel.h during the measurement; 0: unknown
    // Additional time in a step per byte moved, because other operations have used the caches since the last run
    // (harness/calibrate/calibrate_steps.h); 0: unknown.
    double s_per_byte;
    // For cards, whose tables exclude them: launch time of every operation, and the bandwidth that bounds GEMM and
    // attention from below; 0: included in the tables.
    double launch_s, bytes_per_s;
    // The power limit: steps with a higher FLOP rate, by the tables, take `factor` times as long, but at most as
    // long as the limit requires. 0: none.
    struct power_limit {
        double flops_per_s, factor;
    } power;
    bool scaled; // derived from another card by the ratio of peaks
};

// The rate of a range's operation, and the range's position in its grid; NULL: none.
const struct rate *rates_find(const struct rates *rates, const struct range *range, double bytes,
                              double at[RATE_DIMENSIONS]);
// Whether an operation's time is known, and not only a lower bound by memory: it has a rate, or computes nothing.
bool rates_known(const struct rates *rates, const struct range *range, const struct cost *cost);
// Interpolates linearly in the logarithms of shape and rate; constant beyond the grid.
double rate_at(const struct rate *rate, const double at[RATE_DIMENSIONS]);
// Seconds of an operation in a step; 0: no rate. min: a lower bound for every way to cut it.
double rates_seconds(const struct rates *rates, const struct range *range, const struct cost *cost, bool min);
// Applies the power limit to a step's seconds; monotonic in seconds and FLOPs. rates NULL: returns seconds.
double rates_limited_s(const struct rates *rates, double seconds, double flops);
// Seconds of all work counted on the device since its clock was reset, until all queues are done, within the power
// limit.
double device_estimate_s(const struct device *device);
// The rate of this name; NULL: none.
const struct rate *rates_named(const struct rates *rates, const char *name);
// Tells whether an operation over more rows never takes longer than in parts.
bool rates_rise(const struct rates *rates);
