// Transfer: a tensor stored on the host and used on the device. Meanwhile t is the copy on the device, and host the
// host tensor.
#pragma once
#include "kernels/device/ops.h"

// Replaces t, if it is on the host, by a device tensor: an asynchronous copy, or zeros.
void transfer_prefetch(struct device *device, struct tensor *t, struct tensor *host, bool copied);
// Starts to copy t back to host, if there is one.
void transfer_offload(struct device *device, struct tensor t, struct tensor host);
// Makes t the host tensor again and frees the copy.
void transfer_release(struct device *device, struct tensor *t, struct tensor *host);
