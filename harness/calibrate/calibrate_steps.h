// Calibrate steps: measures how much longer operations take in a step than alone. Alone, an operation finds its
// last run's data in the caches; in a step other operations have run since, and its operands come from further
// away. The extra time is proportional to the bytes moved, and is measured on whole steps of a small model against
// their estimates.
#pragma once
#include "harness/calibrate/calibrate_rates.h"

#define CALIBRATE_STEPS_MAX 8

// A step: measured time, at the rates' speed; estimated time; and bytes that its operations move.
struct calibrated_step {
    double seconds, estimate_s, bytes;
};
// Extra seconds per byte: the median over the steps, limited to the range from 0 to memory_s_per_byte, the time of
// a byte from memory. 0 < count <= CALIBRATE_STEPS_MAX.
double calibrate_s_per_byte(const struct calibrated_step *steps, size_t count, double memory_s_per_byte);
// Sets rates->s_per_byte for rates from calibrate_rates, in about the given seconds and at least one round over the
// steps, which are smaller below a second. Returns false and a status (unsupported, oom).
bool calibrate_steps(struct rates *rates, const struct calibrated *what, double memory_s_per_byte,
                     struct status *status);
