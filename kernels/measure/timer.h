// Timer: how long a device takes for what it is asked between start and stop: by its own clock where it has one,
// else by the host's. One per device, not nested.
#pragma once
#include "kernels/device/device.h"

// Waits until all that the device was asked for is done.
void device_synchronize(struct device *device);

enum { MARK_START, MARK_STOP, MARK_FREE }; // the timer's own marks; the others from MARK_FREE on are whoever's

void device_timer_start(struct device *device);
// Waits for the device. Milliseconds since the start.
double device_timer_stop_ms(struct device *device);
// Milliseconds of the host's clock since the start, without waiting: until everything was asked for.
double device_timer_host_launch_ms(const struct device *device);

// Marks the moment when all that was asked for before is done; a mark is overwritten when it is set again.
void device_mark(struct device *device, size_t mark);
// Waits for `to`. Milliseconds from one mark to a later one.
double device_marks_ms(struct device *device, size_t from, size_t to);
