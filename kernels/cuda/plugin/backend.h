// Backend: the parts of an open CUDA device.
#pragma once
#include "kernels/cuda/plugin/queues.h"
#include <cuda_runtime_api.h>

struct backend {
    struct queues queues;
    cudaEvent_t marks[DEVICE_MARKS]; // made when first set
    cudaMemPool_t pool;
    struct pinned *pinned; // memory of the host's place
    struct gemm *gemm;
    struct attention_engines *engines; // cuDNN's; NULL: not bf16
    size_t shared_bytes;               // shared memory available to a block
    struct ranges *ranges;             // NULL: no profiler is attached
    struct nccl *nccl;                 // set once NCCL has transferred data for this device
};

// Makes the host wait for the event, and first for exchanges with other ranks.
void cuda_wait(struct device *device, cudaEvent_t event);

static inline struct backend *backend(const struct device *device)
{
    return device->backend;
}
