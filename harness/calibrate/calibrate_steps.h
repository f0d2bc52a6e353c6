// Calibrate steps: what operations take in a step besides what they take by themselves. Timed one by one an
// operation finds in the caches what its own last run left there; in a step others have run since, and its operands
// come from further away. How much longer that takes goes by the bytes it moves, and is measured on whole steps of
// a small model, each against what the rates say of it.
#pragma once
#include "harness/calibrate/calibrate_rates.h"

#define CALIBRATE_STEPS_MAX 8

// A step: measured, at the speed of the rates; as the rates estimate it; and the bytes that its operations move.
struct calibrated_step {
    double seconds, estimate_s, bytes;
};
// Seconds of a byte besides: the median over the steps, and not below 0 nor above memory_s_per_byte, a byte's out
// of memory: what is more is no cache's. 0 < count <= CALIBRATE_STEPS_MAX.
double calibrate_s_per_byte(const struct calibrated_step *steps, size_t count, double memory_s_per_byte);
// Sets rates->s_per_byte, of rates that calibrate_rates has set, in about so many seconds, and at least a round
// over the steps, which are smaller where they are less than one. False and a status (unsupported, oom).
bool calibrate_steps(struct rates *rates, const struct calibrated *what, double memory_s_per_byte,
                     struct status *status);
