// GEMM tile: one product on one thread, of matrices as they lie.
#pragma once
#include "kernels/base/dtype.h"
#include <stdbool.h>
#include <stddef.h>

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
