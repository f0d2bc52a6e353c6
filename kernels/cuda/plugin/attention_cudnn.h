// Attention in bf16 by cuDNN: forward and backward, exact at any start, without repeating or copying keys.
#pragma once
#include "kernels/device/device.h"

// The operations, on a device in bf16 that was opened with engines. The forward takes device->workspace, of
// CUDA_WORKSPACE_BYTES; the device's status says if a graph cannot be had. The device's observers are told of the
// backward's parts.
attention_forward_op attention_cudnn_forward;
attention_backward_op attention_cudnn_backward;

// Builds every graph that forward and backward of the shape need on such a device; they do so themselves when first
// called. False and a status if one cannot be had.
struct attention_engines;
bool attention_cudnn_build(struct attention_engines *engines, const struct device *device,
                           struct attention_shape shape, struct status *status);
// Whether the library has a backward for the card that says of itself that it is deterministic; from its
// heuristics, nothing is made ready to run.
bool attention_cudnn_is_deterministic(const struct attention_engines *engines);
size_t attention_cudnn_library_version(void);
