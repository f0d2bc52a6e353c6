// Timer: how long a device takes for what it is asked between start and stop: by its own clock where it has one,
// else by the host's. One per device, not nested.
#pragma once
#include "kernels/base/device.h"

void device_timer_start(struct device *device);
// Waits for the device. Milliseconds since the start.
double device_timer_stop_ms(struct device *device);
// Milliseconds of the host's clock since the start, without waiting: until everything was asked for.
double device_timer_asked_ms(const struct device *device);
