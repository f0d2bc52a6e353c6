// GEMM by cuBLASLt: f64, f32 (in full f32: no TF32), bf16 with f32 sums.
#pragma once
#include "kernels/base/device.h"
#include <cuda_runtime_api.h>

struct gemm;
// NULL and a status if cuBLASLt does not work here. The workspace (CUDA_WORKSPACE_BYTES) is the caller's. Release
// with gemm_close.
struct gemm *gemm_open(cudaStream_t stream, struct status *status);
void gemm_close(struct gemm *gemm);

// c = alpha * op(a) * op(b) + beta * c, as in device.h. a and b share a dtype; c has the same or, above bf16, f32.
// reverse_sums: the second half of the terms first. tf32: of factors in f32. False and a status if cuBLASLt has no
// algorithm.
bool gemm_run(struct gemm *gemm, struct tensor c, struct tensor a, enum transpose transpose_a, struct tensor b,
              enum transpose transpose_b, double alpha, double beta, bool reverse_sums, bool tf32, void *workspace,
              struct status *status);
size_t gemm_library_version(void);
