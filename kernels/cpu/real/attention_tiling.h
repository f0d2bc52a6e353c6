// Attention tiling: how attention's forward and backward cut their work. A (sequence, key head) pair reads its keys
// once for all query heads that share them: its rows are (token, head of the group), cut into query blocks. Tiles
// of S are stored transposed, [keys, rows], so that per-row values (maximum, sum, logsumexp, delta) are vectors
// along the columns, and the rows that see a key are a range of columns: bounded on the left by the causal mask, on
// the right by a window or another document. All later columns see a prefix's key, unless a window hides it. Tiles
// that no row sees are skipped. Blocks and lanes depend on the shape alone.
#pragma once
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/tile.h"
#include <string.h>

enum {
    QUERY_BLOCK_BYTES = 64 << 10, // bytes of q: with o and the tiles it fits the second-level cache
    KEY_BLOCK_BYTES = 32 << 10,
    MAX_QUERY_ROWS = 256,
    MAX_KEYS = 64,
    MAX_HEAD_DIM = 512,    // bounds the stack
    UNITS = 16,            // pieces of one query block's backward
    STRIP = 2 * TILE_UNIT, // columns gathered at once: the matrix unit's terms in bf16
};

// A head's row: its numbers, the columns of tiles that hold it, and what is between rows of such tiles.
struct width {
    size_t dim, padded, stride;
};

struct tiling {
    struct attention_shape shape;
    real scale; // 1 / sqrt(head_dim)
    real q_scale,
        s_scale; // the scale is applied to gathered queries or to their products with keys; the other factor is 1
    real cap;    // of scores; 0: none
    real exp_scale;            // of scores as the softmax reads them: s_scale, or 1 when a cap has applied it
    size_t group, pairs;       // query heads per key head; sequences * key heads
    size_t rows, blocks;       // of one pair
    struct width keys, values; // of a head's row of q and k, and of v and o
    size_t block_rows;         // rows of a query block: the columns of a tile
    size_t block_keys;         // keys of a key block: the rows of a tile
    size_t row_stride;         // between rows of tiles [.., block_rows]
    size_t column_unit;        // columns of tiles begin at multiples of it, the unit of products' terms
    size_t slots, lanes;       // backward: pairs at once, partial sums of each pair's grad_q
    bool reverse, accumulate;  // order of sums; backward: into grad_q
    enum tile_sums sums;       // of products
    bool masked;               // beyond the causal mask
};

// One query block of one pair.
struct block {
    size_t pair, row, rows;           // first row and number of rows
    size_t columns;                   // rows, padded
    size_t keys;                      // keys that its last row sees
    size_t own_tile;                  // first tile of its document that its first row sees
    size_t prefix_tile, prefix_tiles; // tiles of its prefix that it sees: the first, and their number
    size_t prefix, whole;             // length of the prefix; all its rows see the keys from `whole` on
};

// Columns [from, to) of a tile that contain all rows that see its keys; from is a multiple of column_unit, to of
// TILE_UNIT.
struct chunks {
    size_t from, to;
};

static inline size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

static inline size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static inline size_t round_up(size_t a, size_t b)
{
    return ceil_div(a, b) * b;
}

static inline struct width width_of(size_t dim)
{
    return (struct width){dim, tile_round(dim), tile_stride(tile_round(dim))};
}

static inline struct tiling tiling_of(struct attention_shape s, bool reverse)
{
    struct tiling t = {.shape = s, .scale = (real)(1 / sqrt((double)s.head_dim)), .reverse = reverse};
    t.sums = tile_sums_of(reverse);
    t.q_scale = REAL_BITS == 16 ? 1 : t.scale; // bf16 queries keep their bits
    t.s_scale = REAL_BITS == 16 ? t.scale : 1;
    t.cap = (real)s.cap;
    t.exp_scale = s.cap > 0 ? 1 : t.s_scale;
    t.column_unit = tile_packs(t.sums) ? STRIP : TILE_UNIT;
    t.masked = attention_is_masked(s);
    CHECK(s.head_dim > 0 && s.head_dim <= MAX_HEAD_DIM && s.value_dim <= MAX_HEAD_DIM);
    CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0);
    t.group = s.heads / s.kv_heads;
    t.pairs = s.batch * s.kv_heads;
    t.rows = s.queries * t.group;
    t.keys = width_of(s.head_dim), t.values = width_of(attention_value_dim(s));
    size_t row_bytes = max(t.keys.padded, t.values.padded) * sizeof(real);
    size_t rows = min(MAX_QUERY_ROWS, QUERY_BLOCK_BYTES / row_bytes / TILE_UNIT * TILE_UNIT);
    size_t keys = min(MAX_KEYS, KEY_BLOCK_BYTES / row_bytes / TILE_UNIT * TILE_UNIT);
    t.block_rows = min(max(rows, TILE_UNIT), tile_round(max(t.rows, 1)));
    t.block_keys = max(keys, TILE_UNIT);
    t.blocks = ceil_div(t.rows, t.block_rows);
    t.row_stride = tile_stride(t.block_rows);
    t.slots = ceil_div(t.pairs, max(ceil_div(t.pairs, UNITS), 1));
    t.lanes = ceil_div(UNITS, max(t.slots, 1));
    return t;
}

static inline struct seen_keys row_keys(const struct tiling *t, size_t pair, size_t row)
{
    return attention_seen_keys(&t->shape, row / t->group, pair / t->shape.kv_heads);
}

// Finds the prefix keys that the block's rows see.
static inline void find_prefix(const struct tiling *t, struct block *block)
{
    size_t first = SIZE_MAX;
    for (size_t row = block->row; row < block->row + block->rows; row++) {
        struct seen_keys seen = row_keys(t, block->pair, row);
        if (seen.first < seen.end) {
            block->prefix = min(seen.end, block->keys);
            first = min(first, seen.first);
        }
        block->whole = max(block->whole, seen.first < seen.end ? seen.first : seen.own);
    }
    block->prefix_tile = first / t->block_keys;
    size_t end = min(ceil_div(block->prefix, t->block_keys), block->own_tile);
    block->prefix_tiles = end > block->prefix_tile ? end - block->prefix_tile : 0;
}

static inline struct block block_of(const struct tiling *t, size_t pair, size_t index)
{
    struct block block = {.pair = pair, .row = index * t->block_rows};
    block.rows = min(t->block_rows, t->rows - block.row);
    block.columns = tile_round(block.rows);
    block.keys = min(t->shape.start + (block.row + block.rows - 1) / t->group + 1, attention_keys(t->shape));
    if (t->masked)
        block.own_tile = min(row_keys(t, pair, block.row).own, block.keys) / t->block_keys;
    if (t->shape.mask.documents.prefixes)
        find_prefix(t, &block);
    return block;
}

// Number of key tiles that the block sees.
static inline size_t tile_count(const struct tiling *t, const struct block *block)
{
    return block->prefix_tiles + ceil_div(block->keys, t->block_keys) - block->own_tile;
}

// First key of the tile with this index.
static inline size_t tile_key(const struct tiling *t, const struct block *block, size_t index)
{
    size_t own = block->own_tile - block->prefix_tiles;
    return (index + (index < block->prefix_tiles ? block->prefix_tile : own)) * t->block_keys;
}

// Index of a row of a pair among the (token, sequence, query head) of q, o and logsumexp.
static inline size_t query_index(const struct tiling *t, size_t pair, size_t row)
{
    size_t sequence = pair / t->shape.kv_heads, key_head = pair % t->shape.kv_heads;
    return (row / t->group * t->shape.batch + sequence) * t->shape.heads + key_head * t->group + row % t->group;
}

// Index of a key of a pair among the (token, sequence, key head) of k and v.
static inline size_t key_index(const struct tiling *t, size_t pair, size_t key)
{
    return key * t->pairs + pair;
}

// The first column that sees the key; earlier ones are masked.
static inline size_t first_column(const struct tiling *t, const struct block *block, size_t key)
{
    size_t row = key > t->shape.start ? (key - t->shape.start) * t->group : 0;
    return row > block->row ? min(row - block->row, block->columns) : 0;
}

// End of the columns that see the key, which is not a prefix's; later ones are masked.
static inline size_t end_column(const struct tiling *t, const struct block *block, size_t key)
{
    size_t low = 0, high = block->rows;
    if (!t->masked)
        return block->columns;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (row_keys(t, block->pair, block->row + middle).own <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < block->rows ? low : block->columns;
}

// Columns for a tile of `keys` keys.
static inline struct chunks chunks_of(const struct tiling *t, const struct block *block, size_t key, size_t keys)
{
    size_t from = first_column(t, block, key) / t->column_unit * t->column_unit;
    size_t end = key < block->prefix ? block->columns : end_column(t, block, key + keys - 1);
    return (struct chunks){from, max(tile_round(end), from)};
}

// tile[i, d] = turned[d, i] = factor * source, for TILE_UNIT rows of a pair from `row` on; zero beyond the last
// row.
static inline void gather_rows(const struct tiling *t, size_t pair, size_t row, struct width width,
                               struct view tile, struct view turned, const stored *source, real factor)
{
    for (size_t i = 0; i < TILE_UNIT; i++) {
        real *to = tile.data + i * tile.row;
        size_t count = row + i < t->rows ? width.dim : 0;
        const stored *from = source + (count ? query_index(t, pair, row + i) * width.dim : 0);
        for (size_t d = 0; d < count; d++)
            to[d] = factor * load(from[d]);
        memset(to + count, 0, (width.padded - count) * sizeof(real));
    }
    tile_transpose(turned, tile, TILE_UNIT, width.padded);
}

// [i, d] = source, for `count` keys of a pair from `key` on, and zero up to `rows` rows: a view of source if it
// needs no padding, else copied to `tile`.
static inline struct view keys_at(const struct tiling *t, size_t pair, size_t key, size_t count, size_t rows,
                                  struct width width, struct view tile, const stored *source)
{
    size_t dim = width.dim;
#if REAL_BITS != 16
    if (count == rows && dim == width.padded)
        return (struct view){(real *)source + key_index(t, pair, key) * dim, (ptrdiff_t)(t->pairs * dim), 1};
#endif
    for (size_t i = 0; i < rows; i++) {
        size_t filled = i < count ? dim : 0;
        const stored *from = source + (filled ? key_index(t, pair, key + i) * dim : 0);
        real *to = tile.data + i * tile.row;
        for (size_t d = 0; d < filled; d++)
            to[d] = load(from[d]);
        memset(tile.data + i * tile.row + filled, 0, (width.padded - filled) * sizeof(real));
    }
    return tile;
}

// Masks a prefix's key that a window hides from some rows.
static inline void mask_prefix_key(const struct tiling *t, const struct block *block, size_t key,
                                   struct chunks columns, real *s)
{
    for (size_t c = columns.from; c < min(columns.to, block->rows); c++)
        if (!seen_keys_have(row_keys(t, block->pair, block->row + c), key))
            s[c] = -REAL_INFINITY;
}

// Sets S to -infinity in columns that do not see a key, so that P is zero. Keys after the last pad the tile.
static inline void mask(const struct tiling *t, const struct block *block, size_t key, size_t rows,
                        struct chunks columns, struct view s)
{
    size_t seen = end_column(t, block, key); // all columns see this key and the following ones
    for (size_t i = 0; i < rows; i++) {
        size_t end = key + i < block->keys ? first_column(t, block, key + i) : block->columns;
        for (size_t c = columns.from; c < min(end, columns.to); c++)
            s.data[i * s.row + c] = -REAL_INFINITY;
        if (key + i < block->prefix) {
            if (key + i < block->whole)
                mask_prefix_key(t, block, key + i, columns, s.data + i * s.row);
            continue;
        }
        while (seen < block->rows && row_keys(t, block->pair, block->row + seen).own <= key + i)
            seen++;
        for (size_t c = max(seen, columns.from); seen < block->rows && c < columns.to; c++)
            s.data[i * s.row + c] = -REAL_INFINITY;
    }
}
