// Profile rates: the measured rates of a profile, {"f32": {"source": ..., "spread": [0.95, 1.1], "yardstick_s":
// 0.002, "operations": {"gemm_nt": {"axes": [[8, 32], [8, 32], [8, 32]], "values": [...]}}}}: the last axis runs
// fastest.
#pragma once
#include "harness/files/json_field.h"
#include "kernels/base/rates.h"

// Of one dtype. False and a status if axes do not rise, or values are not as many, or not positive.
bool profile_rates_read(struct rates *rates, struct json_field field, struct status *status);
// A new reference.
json_t *profile_rates_json(const struct rates *rates, const char *source);
// Where a profile has no rates of a dtype that it has FLOPs of: those of another card, each by the ratio of what
// the two have of FLOPs, memory bandwidth or launches at best, and a range that says how far that may be off.
struct profile;
void profile_rates_scale(struct profile *profile, const struct profile *measured);
