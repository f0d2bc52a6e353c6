// Calibrate rates: measures each operation's speed at each shape (kernels/device/rates.h).
#pragma once
#include "harness/machine/reference_kernel.h"
#include "kernels/device/rates.h"

#define CALIBRATE_ROUNDS_MAX 64

// The subject and the time limit in seconds.
struct calibrated {
    const char *device;
    enum dtype dtype;
    enum reference_kernel_size size; // chosen by the device's speed
    double seconds;
};
// Runs as many rounds over all points as fit, at least one; on a card the points that fit into that one, because
// compile times of a library are unknown in advance. Returns false and a status (unsupported, oom).
bool calibrate_rates(struct rates *rates, const struct calibrated *what, struct status *status);
// Seconds of an operation at the speed at which the reference kernel takes reference_kernel_s, from pairs of times:
// the median of their ratios. around_s: the reference kernel's time around each. 0 < count <= CALIBRATE_ROUNDS_MAX.
double calibrate_steady_s(const double *seconds, const double *around_s, size_t count, double reference_kernel_s);
