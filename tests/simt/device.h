// SIMT device: CUDA's own kernels as a device of the host's memory, each launch run at once (cuda_runtime.h). GEMM,
// which is a library's, and zero it has not.
#pragma once
#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" // {0} is complete in C
extern "C" {
#endif
#include "kernels/device/device.h"

// Release with simt_device_close.
struct device *simt_device_open(enum dtype dtype);
void simt_device_close(struct device *device);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
