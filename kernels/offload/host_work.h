// Host work: computation on the host in the middle of a device's step, on any device. Its data are in the host's
// arena, copied over the link and counted; it waits for all queues, and estimates do not include its time.
#pragma once
#include "kernels/device/ops.h"

// Uninitialised host memory; release with tensor_free.
struct tensor host_work_new(struct device *device, size_t rows, size_t cols, enum dtype dtype);
// A copy of t on the host; release with tensor_free.
struct tensor host_work_read(struct device *device, struct tensor t);
// Tells whether the host must compute: there are data and no failure.
bool host_work_wanted(const struct device *device);
// t = from; frees from.
void host_work_write(struct device *device, struct tensor t, struct tensor *from);
