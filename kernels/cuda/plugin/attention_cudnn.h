// Attention in bf16 by cuDNN: forward and backward, exact at any start, without repeating or copying keys.
#pragma once
#include "kernels/base/device.h"
#include <cuda_runtime_api.h>

struct attention_cudnn;
// On the device's card, the current one. NULL and a status if there is no cuDNN, or no GPU that it can use. The
// device's observers are told of the backward's parts. Release with attention_cudnn_close.
struct attention_cudnn *attention_cudnn_open(struct device *device, cudaStream_t stream, struct status *status);
void attention_cudnn_close(struct attention_cudnn *attention);

// Builds every graph that forward and backward of the shape need; they do so themselves when first called. False
// and a status if one cannot be had.
struct attention_engines;
bool attention_cudnn_build(struct attention_engines *engines, struct attention_shape shape, bool whole,
                           struct status *status);

// The operations of device.h, in bf16. Asynchronous; false and a status as above. The forward's workspace:
// CUDA_WORKSPACE_BYTES. whole: as of cuda_attention_next_block.
bool attention_cudnn_forward(struct attention_cudnn *attention, struct attention_shape shape, struct tensor o,
                             struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v,
                             void *workspace, struct status *status);
bool attention_cudnn_backward(struct attention_cudnn *attention, struct attention_shape shape, bool whole,
                              struct tensor grad_q, const struct key_segment *segments, size_t segment_count,
                              struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                              struct tensor k, struct tensor v, struct tensor workspace, struct status *status);
size_t attention_cudnn_library_version(void);
