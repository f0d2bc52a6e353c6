// Timer: measures the device's time between start and stop, by its own clock if it has one, else by the host's. One
// per device, not nested.
#pragma once
#include "kernels/device/device.h"

// Waits until all issued work is done.
void device_synchronize(struct device *device);

enum { MARK_START, MARK_STOP, MARK_FREE }; // the timer's own marks; others may use those from MARK_FREE on

void device_timer_start(struct device *device);
// Waits for the device. Returns milliseconds since the start.
double device_timer_stop_ms(struct device *device);
// Milliseconds of the host's clock since the start, without waiting: the time to issue all work.
double device_timer_host_launch_ms(const struct device *device);

// Marks the moment when all work issued so far is done; setting a mark again overwrites it.
void device_mark(struct device *device, size_t mark);
// Waits for `to`. Returns milliseconds from one mark to a later one.
double device_marks_ms(struct device *device, size_t from, size_t to);
