// Host work: numbers of a device's step that the host computes in its midst, whatever the device. What it reads and
// writes is in the host's arena, copied over the link and counted; all queues are waited for, and the time that the
// host takes is in no estimate.
#pragma once
#include "kernels/device/ops.h"

// Memory on the host, not set, until tensor_free.
struct tensor host_work_new(struct device *device, size_t rows, size_t cols, enum dtype dtype);
// A copy of t on the host, until tensor_free.
struct tensor host_work_read(struct device *device, struct tensor t);
// Whether the host is to compute: there are data, and nothing has failed.
bool host_work_wanted(const struct device *device);
// t = from, which is freed.
void host_work_write(struct device *device, struct tensor t, struct tensor *from);
