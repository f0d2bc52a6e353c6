// Attention blocks: what the blocks of attention's backward need besides cuDNN.
#pragma once
#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// dst += src, of as many elements: f64, f32 or bf16 each, added in f32 (f64 if dst is).
void cuda_accumulate(struct tensor dst, struct tensor src, cudaStream_t stream);
// dst = src^T.  src: f32 [rows, cols], dst: f32 [cols, rows]; no alias
void cuda_transpose(struct tensor dst, struct tensor src, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
