// Calibrate rates: how fast a device runs each operation at each shape, measured (kernels/device/rates.h).
#pragma once
#include "harness/machine/reference_kernel.h"
#include "kernels/device/rates.h"

#define CALIBRATE_ROUNDS_MAX 64

// What is measured, in about so many seconds.
struct calibrated {
    const char *device;
    enum dtype dtype;
    enum reference_kernel_size size; // what the device is fast enough for
    double seconds;
};
// As many rounds over all points as fit, and at least one; of a card the points that fit into that one, for what a
// library takes to compile an operation nobody knows before. False and a status (unsupported, oom).
bool calibrate_rates(struct rates *rates, const struct calibrated *what, struct status *status);
// Seconds at the speed at which the reference kernel takes yardstick_s, of times each beside what the reference
// kernel took around it: the median of their ratios, for neither is exact. 0 < count <= CALIBRATE_ROUNDS_MAX.
double calibrate_steady_s(const double *seconds, const double *around_s, size_t count, double reference_kernel_s);
