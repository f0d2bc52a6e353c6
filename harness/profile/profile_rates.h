// Profile rates: the measured rates of a profile, {"f32": {"source": ..., "spread": [0.95, 1.1], "yardstick_s":
// 0.002, "operations": {"gemm_nt": {"axes": [[8, 32], [8, 32], [8, 32]], "values": [...]}}}}: the last axis runs
// fastest.
#pragma once
#include "harness/json/json_field.h"
#include "kernels/device/rates.h"

// Of one dtype. False and a status if axes do not rise, or values are not as many, or not positive.
bool profile_rates_read(struct rates *rates, struct json_field field, struct status *status);
// A new reference.
json_t *profile_rates_json(const struct rates *rates, const char *source);
// How many times its estimate by scaled rates a step may take: as far as other cards' shares of their peaks are
// seen to lie apart (an assumption: no step was timed on one); and how far apart steps on an H200 lay by its peaks
// alone, whatever their shapes, which tells two steps of one card apart.
#define SCALED_LOW   0.75
#define SCALED_HIGH  1.4
#define SCALED_APART 1.31

// A card's peak rates, launch time and power; power_w 0: unknown.
struct rate_peaks {
    double flops_per_s[DTYPE_COUNT], bytes_per_s, launch_s, power_w;
};
// Fills in rates for each dtype that has FLOP/s on a card but no measured rates. Each is another card's bf16 rate,
// scaled by the ratio of the two cards' FLOP/s, memory bandwidth or launch time, with the range above. rates:
// [DTYPE_COUNT].
void profile_rates_scale(struct rates *rates, const struct rate_peaks *card, const struct rates *measured,
                         const struct rate_peaks *measured_card);
