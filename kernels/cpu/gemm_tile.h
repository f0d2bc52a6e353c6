// GEMM tile: one single-threaded product of matrices in their memory layout.
#pragma once
#include "kernels/base/dtype.h"
#include <stdbool.h>
#include <stddef.h>

// op(x): x is row-major, with `stride` elements between rows.
struct gemm_operand {
    const void *data;
    size_t stride;
    bool transpose;
};

// c = alpha op(a) op(b) + beta c.  op(a): [m, k], op(b): [k, n], c: [m, n] in c_dtype, with c_stride between rows.
struct gemm_tile {
    size_t m, n, k;
    struct gemm_operand a, b;
    void *c;
    size_t c_stride;
    enum dtype c_dtype;
    double alpha, beta;
};
