// AMX: products of small matrices of f32 on the processor's matrix unit, which multiplies bf16 and sums in f32
// (Intel AMX-BF16). A factor is taken for the sum of two numbers of bf16, what it is cut to and the rounded
// remainder (bf16x2: Henry, Tang & Heinecke 2019, arXiv 1904.06376). One whose numbers are bf16's has no
// remainders, and costs one product.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Element (i, j) is data[i * row + j * column].
struct amx_view {
    const float *data;
    ptrdiff_t row, column;
};

// Whether the processor has the unit, the system lets this process use it, and ONEDNN_MAX_CPU_ISA, which oneDNN
// heeds, too, does not forbid it.
bool amx_available(void);
// c = a b, or c += a b if accumulate.  c: [m, n], c_row apart, a: [m, k], b: [k, n]. n is a multiple of 16; columns
// of b and c stand side by side. Of a columns do (column 1), or rows (row 1), and then m is a multiple of 16, too.
// Beside the rounding of sums in f32 a term is within 2^-16 of itself if one of its factors is in bf16, else within
// 2^-13. Numbers below 2^-126 count as 0, and so do remainders: below 2^-118 a number is cut to bf16. One that is
// infinite may give no number. Once amx_available has returned true; may be called by many threads at once.
void amx_multiply(float *c, ptrdiff_t c_row, bool accumulate, struct amx_view a, struct amx_view b, size_t m,
                  size_t n, size_t k);
