// Attention in bf16 by cuDNN: forward and backward, exact at any start, without repeating or copying keys.
#pragma once
#include "kernels/device/device.h"

// The operations, on a bf16 device opened with engines. The forward uses device->workspace, of
// CUDA_WORKSPACE_BYTES. Sets the device's status if a graph is not supported. Observers are notified of the
// backward's parts.
attention_forward_op attention_cudnn_forward;
attention_backward_op attention_cudnn_backward;

// Builds every graph that forward and backward of the shape need; otherwise they are built on first use. Returns
// false and a status if one is not supported.
struct attention_engines;
bool attention_cudnn_build(struct attention_engines *engines, const struct device *device,
                           struct attention_shape shape, struct status *status);
// Tells whether the library has a backward for the card that is deterministic according to its notes; asks its
// heuristics without compiling.
bool attention_cudnn_is_deterministic(const struct attention_engines *engines);
size_t attention_cudnn_library_version(void);
