// Accumulate: dst += src, for the parts that attention's backward computes block by block.
#pragma once
#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C"
#endif
    // dst and src of as many elements: f64, f32 or bf16 each, added in f32 (f64 if dst is).
    void
    cuda_accumulate(struct tensor dst, struct tensor src, cudaStream_t stream);
