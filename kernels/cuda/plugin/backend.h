// Backend: what an open CUDA device is made of.
#pragma once
#include "kernels/cuda/plugin/queues.h"
#include <cuda_runtime_api.h>

struct backend {
    struct queues queues;
    cudaEvent_t marks[DEVICE_MARKS]; // made when first set
    cudaMemPool_t pool;
    struct pinned *pinned; // the host's place
    struct gemm *gemm;
    struct attention_engines *engines; // cuDNN's; NULL: not bf16
    size_t shared_bytes;               // shared memory that a block may take
    struct ranges *ranges;             // NULL: no profiler is attached
    struct nccl *nccl;                 // that has carried something for this device; NULL: none has
};

// The host waits for the event, and before it for what ranks must come to.
void cuda_wait(struct device *device, cudaEvent_t event);

static inline struct backend *backend(const struct device *device)
{
    return device->backend;
}
