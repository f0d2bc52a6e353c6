// AMX: products of small matrices of f32 on the processor's matrix unit, which multiplies bf16 and sums in f32
// (Intel AMX-BF16). Factors are packed as the unit takes them, once for all the products that they are in. One is
// the sum of two numbers of bf16, what it is cut to and the rounded rest (bf16x2: Henry, Tang & Heinecke 2019,
// arXiv 1904.06376); of one whose numbers are bf16's there is no rest, and a product costs half.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Element (i, j) is data[i * row + j * column].
struct amx_view {
    const float *data;
    ptrdiff_t row, column;
};

enum { AMX_ROWS = 16, AMX_TERMS = 32 }; // that a factor is packed in multiples of

// A left factor [rows, terms], or a right one [terms, rows].
struct amx_factor {
    uint16_t *numbers, *rests; // amx_factor_count elements each, on a cache line; rests may be NULL
    size_t depth;              // its terms, in units of AMX_TERMS
};

static inline size_t amx_factor_count(size_t rows, size_t terms)
{
    return (rows + AMX_ROWS - 1) / AMX_ROWS * AMX_ROWS * ((terms + AMX_TERMS - 1) / AMX_TERMS * AMX_TERMS);
}

static inline struct amx_factor amx_factor_new(uint16_t *numbers, uint16_t *rests, size_t terms)
{
    return (struct amx_factor){numbers, rests, (terms + AMX_TERMS - 1) / AMX_TERMS};
}

// Its part from a row and a term on, multiples of AMX_ROWS and AMX_TERMS.
static inline struct amx_factor amx_factor_at(struct amx_factor f, size_t row, size_t term)
{
    size_t at = row * f.depth * AMX_TERMS + term * AMX_ROWS;
    return (struct amx_factor){f.numbers + at, f.rests ? f.rests + at : NULL, f.depth};
}

// Whether the processor has the unit, the system lets this process use it, and ONEDNN_MAX_CPU_ISA, which oneDNN
// heeds, too, does not forbid it. What follows is to be called only where this has returned true, and may be by
// many threads at once.
bool amx_available(void);
// to = a: [m, k] or b: [k, n], and zeros up to the next multiple of AMX_TERMS of the terms. Columns of b stand side
// by side (column 1), and n is a multiple of AMX_ROWS. Of a columns do, or rows (row 1), and then m is a multiple
// of AMX_ROWS, too. Without `rests` numbers are cut to bf16.
void amx_pack_left(struct amx_factor to, struct amx_view a, size_t m, size_t k);
void amx_pack_right(struct amx_factor to, struct amx_view b, size_t k, size_t n);
// c = a b, or c += a b if accumulate.  c: [m, n], c_row apart, columns side by side; n a multiple of AMX_ROWS.
// Beside the rounding of sums in f32 a term is within 2^-16 of itself if one of its factors is in bf16, else within
// 2^-13. Numbers below 2^-126 count as 0, and so do rests: below 2^-118 a number is cut to bf16. One that is
// infinite may give no number.
void amx_multiply(float *c, ptrdiff_t c_row, bool accumulate, struct amx_factor a, struct amx_factor b, size_t m,
                  size_t n, size_t k);
