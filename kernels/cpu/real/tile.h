// Tile: products of small matrices that live in a thread's own memory, for operations which multiply, work on the
// elements and multiply again. Sums by vectors run over k in one order, whatever the sizes: equal terms give equal
// bits. The matrix unit adds terms by 32 from the first one on.
#pragma once
#include "kernels/cpu/amx.h"
#include "kernels/cpu/real/real.h"
#include <stdbool.h>
#include <stddef.h>

#ifdef __AVX512F__
enum { TILE_LANES = 64 / sizeof(real), TILE_ROWS = 8 };
#else
enum { TILE_LANES = 32 / sizeof(real), TILE_ROWS = 4 };
#endif
// Sides of tiles are multiples of this, filled with zeros.
enum { TILE_UNIT = 64 / sizeof(real) };

typedef real vector __attribute__((vector_size(TILE_LANES * sizeof(real)), aligned(sizeof(real)), may_alias));
#if REAL_BITS == 64
typedef uint64_t vector_bits __attribute__((vector_size(TILE_LANES * sizeof(real))));
#else
typedef uint32_t vector_bits __attribute__((vector_size(TILE_LANES * sizeof(real))));
#endif

static inline vector *vector_at(const real *x)
{
    return (vector *)x;
}

// Element (i, j) is data[i * row + j * column].
struct view {
    real *data;
    ptrdiff_t row, column;
};

static inline struct view view_at(struct view x, size_t i, size_t j)
{
    x.data += (ptrdiff_t)i * x.row + (ptrdiff_t)j * x.column;
    return x;
}
static inline struct view view_transposed(struct view x)
{
    return (struct view){x.data, x.column, x.row};
}

static inline size_t tile_round(size_t n)
{
    return (n + TILE_UNIT - 1) / TILE_UNIT * TILE_UNIT;
}
// Distance between the rows of a tile with n columns: an odd number of cache lines, so that a column of a tile
// does not fall into a few sets of the cache.
static inline size_t tile_stride(size_t n)
{
    return ((n + TILE_UNIT - 1) / TILE_UNIT | 1) * TILE_UNIT;
}

// How a product is summed: by vectors, over k upward or downward, or, for tensors of bf16, by the processor's
// matrix unit (kernels/cpu/amx.h).
enum tile_sums { SUMS_UPWARD, SUMS_DOWNWARD, SUMS_BY_AMX };
static inline enum tile_sums tile_sums_of(bool reverse)
{
    return reverse ? SUMS_DOWNWARD : REAL_BITS == 16 && amx_available() ? SUMS_BY_AMX : SUMS_UPWARD;
}

#define tile_multiply NAME(tile_multiply)
// c = a b, or c += a b if accumulate.  c: [m, n], a: [m, k], b: [k, n]; m a multiple of TILE_ROWS and n of
// TILE_UNIT; columns of b and c stand side by side (column 1), of a rows or columns; rows, and m is a multiple of
// TILE_UNIT.
void tile_multiply(struct view c, bool accumulate, struct view a, struct view b, size_t m, size_t n, size_t k,
                   enum tile_sums sums);

#define tile_transpose NAME(tile_transpose)
// to[j, i] = from[i, j].  from: [rows, cols], both multiples of TILE_UNIT; columns stand side by side (column 1).
void tile_transpose(struct view to, struct view from, size_t rows, size_t cols);
