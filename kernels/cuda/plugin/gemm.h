// GEMM by cuBLASLt: f64, f32 (full f32 unless the device may use TF32), bf16 with f32 accumulators. a and b share a
// dtype; c has the same or, for bf16, f32. With reverse_sums the second half of the terms comes first. cuda_gemm
// (kernels.h) uses CUDA_WORKSPACE_BYTES of device->workspace and sets the device's status if cuBLASLt has no
// algorithm, or device->gemm_algorithms cannot be read or written.
#pragma once
#include "kernels/device/device.h"
#include <cuda_runtime_api.h>

struct gemm;
// Returns NULL and a status if cuBLASLt does not work here. Release with gemm_close. card: its name.
struct gemm *gemm_open(cudaStream_t stream, const char *card, struct status *status);
void gemm_close(struct gemm *gemm);
size_t gemm_library_version(void);
