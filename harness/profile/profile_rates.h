// Profile rates: the measured rates of a profile, {"f32": {"source": ..., "spread": [0.95, 1.1],
// "reference_kernel_s": 0.002, "operations": {"gemm_nt": {"axes": [[8, 32], [8, 32], [8, 32]], "values": [...]}}}}.
// The last axis varies fastest.
#pragma once
#include "harness/json/json_field.h"
#include "kernels/device/rates.h"

// Reads the rates of one dtype. Returns false and a status if axes do not rise, or values are not positive or not
// as many as the grid has points.
bool profile_rates_read(struct rates *rates, struct json_field field, struct status *status);
// A new reference.
json_t *profile_rates_json(const struct rates *rates, const char *source);
// Range of a step's time over its estimate by scaled rates: as wide as the spread of other cards' shares of their
// peaks (an assumption: no step was timed on one). And the spread of steps on an H200 against its peaks, over all
// shapes, which tells two steps of one card apart.
#define SCALED_LOW   0.75
#define SCALED_HIGH  1.4
#define SCALED_APART 1.31

// A card's peak rates, launch time and power; power_w 0: unknown.
struct rate_peaks {
    double flops_per_s[DTYPE_COUNT], bytes_per_s, launch_s, power_w;
};
// Fills in rates for each dtype that has FLOP/s but no measured rates: another card's bf16 rates, scaled by the
// ratio of the cards' FLOP/s, memory bandwidth or launch time, with the range above. rates: [DTYPE_COUNT].
void profile_rates_scale(struct rates *rates, const struct rate_peaks *card, const struct rates *measured,
                         const struct rate_peaks *measured_card);
