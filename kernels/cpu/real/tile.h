// Tile: products of small matrices in a thread's own memory, for operations that multiply, transform elements and
// multiply again. Vector sums run over k in one order for all sizes, so equal terms give equal bits. bf16 units
// (kernels/cpu/amx.h) add groups of 32 terms in their own order.
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
// Distance between the rows of a tile with n columns: an odd number of cache lines, so that a column does not map
// to a few cache sets.
static inline size_t tile_stride(size_t n)
{
    return ((n + TILE_UNIT - 1) / TILE_UNIT | 1) * TILE_UNIT;
}

// How a product is summed: by vectors, over k upward or downward, or by the processor's bf16 instructions
// (kernels/cpu/amx.h).
enum tile_sums { SUMS_UPWARD, SUMS_DOWNWARD, SUMS_BY_AVX512, SUMS_BY_AMX };
static inline enum tile_sums tile_sums_of(bool reverse)
{
    static const enum tile_sums by[] = {
        [BF16_NONE] = SUMS_UPWARD, [BF16_AVX512] = SUMS_BY_AVX512, [BF16_AMX] = SUMS_BY_AMX};
    return reverse ? SUMS_DOWNWARD : by[REAL_BITS == 16 ? bf16_unit() : BF16_NONE];
}

// Tells whether factors are packed; otherwise they are used in place.
static inline bool tile_packs(enum tile_sums sums)
{
    return sums == SUMS_BY_AVX512 || sums == SUMS_BY_AMX;
}

// A factor of products, packed once for all of them or used in place. Packed numbers are bf16.
struct factor {
    struct view view;
    struct amx_factor packed;
};

// Elements of a packed factor, aligned to a cache line; not 0. rows: columns of a right factor.
static inline size_t tile_room(enum tile_sums sums, size_t rows, size_t terms)
{
    return tile_packs(sums) ? amx_factor_count(rows, terms) : 1;
}

static inline struct factor tile_factor(enum tile_sums sums, struct view view, size_t terms, uint16_t *room)
{
    return (struct factor){.view = view,
                           .packed = tile_packs(sums) ? amx_factor_new(room, terms) : (struct amx_factor){0}};
}

static inline struct factor tile_left_at(struct factor f, size_t row)
{
    f.view = view_at(f.view, row, 0);
    if (f.packed.numbers)
        f.packed = amx_factor_at(f.packed, row, 0);
    return f;
}
static inline struct factor tile_right_at(struct factor f, size_t term, size_t column)
{
    f.view = view_at(f.view, term, column);
    if (f.packed.numbers)
        f.packed = amx_factor_at(f.packed, column, term);
    return f;
}

#if REAL_BITS == 16
static inline struct amx_view amx_view_of(struct view x)
{
    return (struct amx_view){x.data, x.row, x.column};
}
#endif

// Packs [m, k] if factors are packed: columns are contiguous (column 1), or rows are (row 1) and m is a multiple of
// TILE_UNIT.
static inline void tile_pack_left(enum tile_sums sums, struct factor to, struct view a, size_t m, size_t k)
{
#if REAL_BITS == 16
    if (tile_packs(sums))
        amx_pack_left(to.packed, amx_view_of(a), m, k);
#else
    (void)sums, (void)to, (void)a, (void)m, (void)k;
#endif
}
// The same for [k, n] with contiguous columns, n a multiple of TILE_UNIT.
static inline void tile_pack_right(enum tile_sums sums, struct factor to, struct view b, size_t k, size_t n)
{
#if REAL_BITS == 16
    if (tile_packs(sums))
        amx_pack_right(to.packed, amx_view_of(b), k, n);
#else
    (void)sums, (void)to, (void)b, (void)k, (void)n;
#endif
}

static inline struct factor tile_left(enum tile_sums sums, struct view a, size_t m, size_t k, uint16_t *room)
{
    struct factor f = tile_factor(sums, a, k, room);
    tile_pack_left(sums, f, a, m, k);
    return f;
}
static inline struct factor tile_right(enum tile_sums sums, struct view b, size_t k, size_t n, uint16_t *room)
{
    struct factor f = tile_factor(sums, b, k, room);
    tile_pack_right(sums, f, b, k, n);
    return f;
}

#define tile_multiply NAME(tile_multiply)
// c = a b, or c += a b if accumulate.  c: [m, n], a: [m, k], b: [k, n]; m a multiple of TILE_ROWS and n of
// TILE_UNIT; columns of b and c are contiguous (column 1).
void tile_multiply(struct view c, bool accumulate, struct factor a, struct factor b, size_t m, size_t n, size_t k,
                   enum tile_sums sums);

#define tile_transpose NAME(tile_transpose)
// to[j, i] = from[i, j].  from: [rows, cols], both multiples of TILE_UNIT; columns are contiguous (column 1).
void tile_transpose(struct view to, struct view from, size_t rows, size_t cols);
