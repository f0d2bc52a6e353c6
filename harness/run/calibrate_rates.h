// Calibrate rates: how fast a device runs each operation at each shape, measured (kernels/base/rates.h).
#pragma once
#include "kernels/base/rates.h"

// In about so many seconds: every point is timed as often as its share of them allows, and at least three times.
// False and a status (unsupported, oom).
bool calibrate_rates(struct rates *rates, const char *device, enum dtype dtype, double seconds,
                     struct status *status);
