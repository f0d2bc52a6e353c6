#include "kernels/cpu/real/tile.h"

// Rows and vectors of columns of c held in registers at once: they fill three quarters of the register file.
// Without AVX-512 a side of a tile is a whole number of strips of two vectors; rows that pairs of blocks leave are
// taken TILE_ROWS at a time.
#ifdef __AVX512F__
enum { ROWS = TILE_ROWS, VECTORS = 3 };
#else
enum { ROWS = 6, VECTORS = 2 };
#endif

static inline __attribute__((always_inline)) void
multiply_block(int rows, int vectors, struct view c, bool accumulate, struct view a, struct view b, size_t k)
{
    vector sum[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            sum[i][j] = accumulate ? *vector_at(c.data + i * c.row + j * TILE_LANES) : (vector){0};
    for (; k > 0; k--, a.data += a.column, b.data += b.row) {
        vector right[VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            right[j] = *vector_at(b.data + j * TILE_LANES);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++)
                sum[i][j] += a.data[i * a.row] * right[j];
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            *vector_at(c.data + i * c.row + j * TILE_LANES) = sum[i][j];
}

// One strip of columns: its part of b stays in the first-level cache for all rows of a.
static inline __attribute__((always_inline)) void multiply_strip(int vectors, struct view c, bool accumulate,
                                                                 struct view a, struct view b, size_t m, size_t k)
{
    size_t i = 0, whole = m / (2 * ROWS) * (2 * ROWS);
    for (; i < whole; i += ROWS)
        multiply_block(ROWS, vectors, view_at(c, i, 0), accumulate, view_at(a, i, 0), b, k);
    for (; i < m; i += TILE_ROWS)
        multiply_block(TILE_ROWS, vectors, view_at(c, i, 0), accumulate, view_at(a, i, 0), b, k);
}

void tile_multiply(struct view c, bool accumulate, struct factor left, struct factor right, size_t m, size_t n,
                   size_t k, enum tile_sums sums)
{
#if REAL_BITS == 16
    if (tile_packs(sums)) {
        amx_multiply(sums == SUMS_BY_AMX ? BF16_AMX : BF16_AVX512, c.data, c.row, accumulate, left.packed,
                     right.packed, m, n, k);
        return;
    }
#endif
    struct view a = left.view, b = right.view;
    if (sums == SUMS_DOWNWARD && k > 0) {
        a = view_at(a, 0, k - 1), a.column = -a.column;
        b = view_at(b, k - 1, 0), b.row = -b.row;
    }
    size_t rest = n / TILE_LANES; // vectors, distributed evenly over the fewest strips
    while (rest > 0) {
        size_t strips = (rest + VECTORS - 1) / VECTORS, vectors = (rest + strips - 1) / strips;
        switch (vectors) {
        case VECTORS:
            multiply_strip(VECTORS, c, accumulate, a, b, m, k);
            break;
        case VECTORS - 1:
            multiply_strip(VECTORS - 1, c, accumulate, a, b, m, k);
            break;
        default:
            multiply_strip(1, c, accumulate, a, b, m, k);
            break;
        }
        c = view_at(c, 0, vectors * TILE_LANES), b = view_at(b, 0, vectors * TILE_LANES);
        rest -= vectors;
    }
}

// Selects lanes by index from a followed by b.
static inline __attribute__((always_inline)) vector pick(vector a, vector b, vector_bits index)
{
#ifdef __clang__ // clang has no shuffle by a variable
    vector picked = {0};
    for (int j = 0; j < TILE_LANES; j++)
        picked[j] = index[j] < TILE_LANES ? a[index[j]] : b[index[j] - TILE_LANES];
    return picked;
#else
    return __builtin_shuffle(a, b, index);
#endif
}

// Swaps quarters of the square, then quarters of quarters (Eklundh 1972).
static inline __attribute__((always_inline)) void transpose_square(struct view to, struct view from)
{
    vector x[TILE_LANES];
#pragma GCC unroll 16
    for (int i = 0; i < TILE_LANES; i++)
        x[i] = *vector_at(from.data + i * from.row);
#pragma GCC unroll 4
    for (int side = TILE_LANES / 2; side > 0; side /= 2) {
        vector_bits upper = {0}, lower = {0};
#pragma GCC unroll 16
        for (int j = 0; j < TILE_LANES; j++) {
            upper[j] = j & side ? TILE_LANES + j - side : j;
            lower[j] = j & side ? TILE_LANES + j : j + side;
        }
#pragma GCC unroll 16
        for (int i = 0; i < TILE_LANES; i++) {
            if (i & side)
                continue;
            vector a = x[i], b = x[i + side];
            x[i] = pick(a, b, upper);
            x[i + side] = pick(a, b, lower);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < TILE_LANES; i++)
        *vector_at(to.data + i * to.row) = x[i];
}

void tile_transpose(struct view to, struct view from, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i += TILE_LANES)
        for (size_t j = 0; j < cols; j += TILE_LANES)
            transpose_square(view_at(to, j, i), view_at(from, i, j));
}
