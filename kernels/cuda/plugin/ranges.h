// Ranges: a step's ranges in a profiler's time line (NVTX, domain "longbp").
#pragma once
#include "kernels/device/observer.h"

struct ranges;
// Observes the device if a tool is attached to this process; otherwise returns NULL and does nothing.
struct ranges *ranges_open(struct device *device);
void ranges_close(struct ranges *ranges, struct device *device);
