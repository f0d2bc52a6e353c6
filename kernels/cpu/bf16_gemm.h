// GEMM of bf16 on one thread, summed in f32 and rounded once per result: by oneDNN where the processor multiplies
// bf16 itself (AMX, AVX-512 BF16), else on tiles widened to f32 by the BLAS.
#pragma once
#include "kernels/cpu/gemm_tile.h"

struct onednn;

// c is bf16 or f32, a and b are bf16. onednn: of onednn_open, or NULL for the BLAS. With `reverse` the terms are
// added in another order, by the BLAS. May be called by many threads at once.
void bf16_gemm(struct onednn *onednn, const struct gemm_tile *tile, bool reverse);
