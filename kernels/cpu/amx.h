// AMX: products of small matrices of bf16 with sums in f32, by the processor's matrix unit (Intel AMX-BF16) or else
// by its vectors (AVX-512 BF16). Factors are packed as the matrix unit takes them, once for all the products that
// they are in, and vectors read the same.
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
    uint16_t *numbers; // amx_factor_count elements, on a cache line
    size_t depth;      // its terms, in units of AMX_TERMS
};

static inline size_t amx_factor_count(size_t rows, size_t terms)
{
    return (rows + AMX_ROWS - 1) / AMX_ROWS * AMX_ROWS * ((terms + AMX_TERMS - 1) / AMX_TERMS * AMX_TERMS);
}

static inline struct amx_factor amx_factor_new(uint16_t *numbers, size_t terms)
{
    return (struct amx_factor){numbers, (terms + AMX_TERMS - 1) / AMX_TERMS};
}

// Its part from a row and a term on, multiples of AMX_ROWS and AMX_TERMS.
static inline struct amx_factor amx_factor_at(struct amx_factor f, size_t row, size_t term)
{
    return (struct amx_factor){f.numbers + row * f.depth * AMX_TERMS + term * AMX_ROWS, f.depth};
}

// What multiplies here: what the processor has, the system lets this process use, and ONEDNN_MAX_CPU_ISA, which
// oneDNN heeds, too, does not forbid. What follows is to be called only where there is one, and may be by many
// threads at once.
enum bf16_unit { BF16_NONE, BF16_AVX512, BF16_AMX };
enum bf16_unit bf16_unit(void);
// "AMX", "AVX-512 BF16", or NULL.
const char *bf16_unit_name(void);
// to = a: [m, k] or b: [k, n], cut to bf16, and zeros up to the next multiple of AMX_TERMS of the terms. Columns of
// b stand side by side (column 1), and n is a multiple of AMX_ROWS. Of a columns do, or rows (row 1), and then m is
// a multiple of AMX_ROWS, too.
void amx_pack_left(struct amx_factor to, struct amx_view a, size_t m, size_t k);
void amx_pack_right(struct amx_factor to, struct amx_view b, size_t k, size_t n);
// c = a b, or c += a b if accumulate, by bf16_unit(), which is passed: it asks the environment.  c: [m, n], c_row
// apart, columns side by side; n a multiple of AMX_ROWS. Terms are exact, sums are rounded to f32. Numbers below
// 2^-126 count as 0.
void amx_multiply(enum bf16_unit unit, float *c, ptrdiff_t c_row, bool accumulate, struct amx_factor a,
                  struct amx_factor b, size_t m, size_t n, size_t k);
