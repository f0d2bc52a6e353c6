// Plan: a device whose tensors have no data. The same walks run on it and ask the same arena for the same bytes, so
// it gives the exact peak, FLOPs, bytes moved and launches of a step on the device that it is like, on any machine.
#pragma once
#include "kernels/base/device.h"

// One table per device imitated and dtype. NULL if that device has no such dtype.
const struct device_ops *plan_ops_like_cpu(enum dtype dtype);
const struct device_ops *plan_ops_like_cuda(enum dtype dtype);
