#include "kernels/cuda/plugin/backend.h"
#include "kernels/cuda/kernels/kernels.h"

struct CUstream_st *cuda_stream(const struct device *device)
{
    return backend(device)->queues.streams[QUEUE_COMPUTE];
}

size_t cuda_shared_bytes(const struct device *device)
{
    return backend(device)->shared_bytes;
}
