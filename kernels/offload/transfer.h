// Transfer: a tensor that is kept on the host and used on the device. While it is there, t is the copy on the
// device and far what it was.
#pragma once
#include "kernels/device/ops.h"

// t, if it is on the host, becomes a tensor of the device: a copy on its way, or zero.
void transfer_prefetch(struct device *device, struct tensor *t, struct tensor *far, bool copied);
// Sends what t is now back to far, if there is one.
void transfer_offload(struct device *device, struct tensor t, struct tensor far);
// t is on the host again; the copy is freed.
void transfer_release(struct device *device, struct tensor *t, struct tensor *far);
