// GEMM of bf16 on one thread, summed in f32 and rounded once per result: by oneDNN where the processor multiplies
// bf16 itself (AMX, AVX-512 BF16), else on tiles widened to f32 by the BLAS.
#pragma once
#include "kernels/base/device.h"

struct onednn;

// op(x), row-major as it lies: `stride` elements between its rows.
struct gemm_operand {
    const void *data;
    size_t stride;
    bool transpose;
};

// c = alpha op(a) op(b) + beta c.  op(a): [m, k], op(b): [k, n], c: [m, n], of c_dtype, c_stride between its rows.
struct gemm_tile {
    size_t m, n, k;
    struct gemm_operand a, b;
    void *c;
    size_t c_stride;
    enum dtype c_dtype;
    double alpha, beta;
};

// c is bf16 or f32, a and b are bf16. onednn: of onednn_open, or NULL for the BLAS. With `reverse` the terms are
// added in another order, by the BLAS. May be called by many threads at once.
void bf16_gemm(struct onednn *onednn, const struct gemm_tile *tile, bool reverse);
