// Calibrate rates: how fast a device runs each operation at each shape, measured (kernels/base/rates.h).
#pragma once
#include "kernels/base/rates.h"

#define CALIBRATE_ROUNDS_MAX 64

// In about so many seconds, as many rounds over all points as fit, and at least one. False and a status
// (unsupported, oom).
bool calibrate_rates(struct rates *rates, const char *device, enum dtype dtype, double seconds,
                     struct status *status);
// Seconds at the speed at which the yardstick takes yardstick_s, of times each beside what the yardstick took
// around it: the median of their ratios, for neither is exact. 0 < count <= CALIBRATE_ROUNDS_MAX.
double calibrate_steady_s(const double *seconds, const double *around_s, size_t count, double yardstick_s);
