// Backend: the parts of an open CUDA device.
#pragma once
#include "kernels/device/device.h"
#include <cuda_runtime_api.h>

// Distinguishable events per queue. Waiting for an older one waits for a later event of its queue, recorded before
// the wait: never too little, and never a cycle.
#define QUEUE_EVENTS 512

struct backend {
    cudaStream_t streams[QUEUE_COUNT];
    cudaEvent_t events[QUEUE_COUNT][QUEUE_EVENTS]; // made when first recorded
    bool copied;                                   // the copies' streams have had work
    cudaEvent_t marks[DEVICE_MARKS];               // made when first set
    cudaMemPool_t pool;
    size_t pinned_bytes; // of the host, from the driver
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
