// Single-threaded bf16 GEMM with f32 accumulators, rounded once per result: by oneDNN on processors with bf16
// instructions (AMX, AVX-512 BF16), else by the BLAS on tiles widened to f32.
#pragma once
#include "kernels/cpu/gemm_tile.h"

struct onednn;

// c is bf16 or f32, a and b are bf16. onednn: from onednn_open, or NULL for the BLAS. With `reverse` the BLAS adds
// the terms in another order. Thread-safe.
void bf16_gemm(struct onednn *onednn, const struct gemm_tile *tile, bool reverse);
