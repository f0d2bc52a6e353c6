// Attention in bf16 by cuDNN: forward and backward, exact at any start, without repeating or copying keys.
#pragma once
#include "kernels/base/device.h"
#include <cuda_runtime_api.h>

struct attention_cudnn;
// NULL and a status if there is no cuDNN, or no GPU that it can use. Release with attention_cudnn_close.
struct attention_cudnn *attention_cudnn_open(cudaStream_t stream, struct status *status);
// For a GPU that is not there, described as cuDNN's own JSON: graphs are built, nothing can run. planned: their
// kernels are compiled, too, which needs a driver, or what stands in for one.
struct attention_cudnn *attention_cudnn_open_described(const char *properties, bool planned, struct status *status);
void attention_cudnn_close(struct attention_cudnn *attention);

// Builds and keeps every graph that forward or backward of the shape needs; they do so themselves when first
// called. False and a status (unsupported) if cuDNN has no engine for one, or wants more workspace than
// cuda_attention_backward_workspace allows.
bool attention_cudnn_prepare_forward(struct attention_cudnn *attention, struct attention_shape shape,
                                     struct status *status);
bool attention_cudnn_prepare_backward(struct attention_cudnn *attention, struct attention_shape shape,
                                      struct status *status);
// The graphs kept, how many of them have not the engine that cuDNN would choose first, and the most workspace that
// one of their engines takes.
struct attention_cudnn_totals {
    size_t graphs, backward_graphs, second_choices, engine_bytes;
};
struct attention_cudnn_totals attention_cudnn_totals(const struct attention_cudnn *attention);

// The operations of device.h, in bf16. Asynchronous; false and a status as above. The forward's workspace:
// CUDA_WORKSPACE_BYTES.
bool attention_cudnn_forward(struct attention_cudnn *attention, struct attention_shape shape, struct tensor o,
                             struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v,
                             void *workspace, struct status *status);
bool attention_cudnn_backward(struct attention_cudnn *attention, struct attention_shape shape, struct tensor grad_q,
                              const struct key_segment *segments, size_t segment_count, struct tensor grad_o,
                              struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                              struct tensor v, struct tensor workspace, struct status *status);
size_t attention_cudnn_library_version(void);
