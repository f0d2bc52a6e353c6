// AMX: products of small bf16 matrices with f32 accumulators, by the processor's matrix unit (Intel AMX-BF16) or
// its vectors (AVX-512 BF16). Both read factors in the matrix unit's packed layout, packed once for several
// products.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Element (i, j) is data[i * row + j * column].
struct amx_view {
    const float *data;
    ptrdiff_t row, column;
};

enum { AMX_ROWS = 16, AMX_TERMS = 32 }; // factors are packed in multiples of these

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

// Part of a factor from a row and a term on, multiples of AMX_ROWS and AMX_TERMS.
static inline struct amx_factor amx_factor_at(struct amx_factor f, size_t row, size_t term)
{
    return (struct amx_factor){f.numbers + row * f.depth * AMX_TERMS + term * AMX_ROWS, f.depth};
}

// The bf16 instructions to use: those that the processor has, the system permits, and ONEDNN_MAX_CPU_ISA, which
// oneDNN also reads, does not exclude. The functions below require one and are thread-safe.
enum bf16_unit { BF16_NONE, BF16_AVX512, BF16_AMX };
enum bf16_unit bf16_unit(void);
// "AMX", "AVX-512 BF16", or NULL.
const char *bf16_unit_name(void);
// Packs a: [m, k] or b: [k, n], truncated to bf16, with zeros up to a multiple of AMX_TERMS. b's columns are
// contiguous (column 1), and n is a multiple of AMX_ROWS. a has contiguous columns, or contiguous rows (row 1) with
// m a multiple of AMX_ROWS.
void amx_pack_left(struct amx_factor to, struct amx_view a, size_t m, size_t k);
void amx_pack_right(struct amx_factor to, struct amx_view b, size_t k, size_t n);
// c = a b, or c += a b if accumulate. unit: bf16_unit(), passed because it reads the environment. c: [m, n] with
// rows c_row apart and contiguous columns; n a multiple of AMX_ROWS. Products are exact, sums rounded to f32.
// Numbers below 2^-126 count as 0.
void amx_multiply(enum bf16_unit unit, float *c, ptrdiff_t c_row, bool accumulate, struct amx_factor a,
                  struct amx_factor b, size_t m, size_t n, size_t k);
