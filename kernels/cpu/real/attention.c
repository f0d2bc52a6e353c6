// Attention, tile by tile (Dao 2023, arXiv 2307.08691): no matrix of queries x keys ever stands in memory.
//
//   forward:   S = q k^T * scale, causal;  P = softmax(S);  o = P v;  logsumexp of the rows of S is kept
//   backward:  P = exp(S - logsumexp), delta = rowsum(grad_o * o), dS = P * (grad_o v^T - delta)
//              grad_q = dS k * scale;  grad_k += dS^T q * scale;  grad_v += P^T grad_o
//
// A (sequence, key head) pair reads its keys once for all the query heads that share them: its rows are
// (token, head of the group), cut into query blocks. Tiles of S are held transposed, [keys, rows], so that
// whatever belongs to a row (maximum, sum, logsumexp, delta) is a vector along the tile's columns, and the causal
// mask of a key is a run of columns from 0. Blocks and lanes are cut by the shape alone.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/scores.h"
#include "kernels/cpu/real/tile.h"
#include <float.h>
#include <string.h>

enum {
    QUERY_BLOCK_BYTES = 64 << 10, // of q: with o and the tiles below it fits the second-level cache
    KEY_BLOCK_BYTES = 32 << 10,
    MAX_QUERY_ROWS = 256,
    MAX_KEYS = 64,
    MAX_HEAD_DIM = 512, // bounds the stack
    UNITS = 16,         // pieces that the backward of one query block is cut into
};

#if REAL_BITS == 64
#define REAL_LOWEST (-DBL_MAX)
#else
#define REAL_LOWEST (-FLT_MAX)
#endif

struct tiling {
    struct attention_shape shape;
    real scale;
    size_t group, pairs;      // query heads per key head; sequences * key heads
    size_t rows, blocks;      // of one pair
    size_t dim;               // head_dim, padded
    size_t block_rows;        // rows of a query block: the columns of a tile
    size_t block_keys;        // keys of a key block: the rows of a tile
    size_t dim_stride;        // between rows of tiles [.., dim]
    size_t row_stride;        // between rows of tiles [.., block_rows]
    size_t slots, lanes;      // backward: pairs at a time, partial sums of each pair's grad_q
    bool reverse, accumulate; // sums; backward: into grad_q
};

// One query block of one pair.
struct block {
    size_t pair, row, rows; // first row and number of rows
    size_t columns;         // rows, padded
    size_t keys;            // that its last row sees
};

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static struct tiling tiling_of(struct attention_shape s, bool reverse)
{
    struct tiling t = {.shape = s, .scale = (real)(1 / sqrt((double)s.head_dim)), .reverse = reverse};
    CHECK(s.head_dim > 0 && s.head_dim <= MAX_HEAD_DIM && s.kv_heads > 0 && s.heads % s.kv_heads == 0);
    t.group = s.heads / s.kv_heads;
    t.pairs = s.batch * s.kv_heads;
    t.rows = s.queries * t.group;
    t.dim = tile_round(s.head_dim);
    size_t rows = min(MAX_QUERY_ROWS, QUERY_BLOCK_BYTES / (t.dim * sizeof(real)) / TILE_UNIT * TILE_UNIT);
    size_t keys = min(MAX_KEYS, KEY_BLOCK_BYTES / (t.dim * sizeof(real)) / TILE_UNIT * TILE_UNIT);
    t.block_rows = min(max(rows, TILE_UNIT), tile_round(max(t.rows, 1)));
    t.block_keys = max(keys, TILE_UNIT);
    t.blocks = ceil_div(t.rows, t.block_rows);
    t.dim_stride = tile_stride(t.dim);
    t.row_stride = tile_stride(t.block_rows);
    t.slots = ceil_div(t.pairs, max(ceil_div(t.pairs, UNITS), 1));
    t.lanes = ceil_div(UNITS, max(t.slots, 1));
    return t;
}

static struct block block_of(const struct tiling *t, size_t pair, size_t index)
{
    struct block block = {.pair = pair, .row = index * t->block_rows};
    block.rows = min(t->block_rows, t->rows - block.row);
    block.columns = tile_round(block.rows);
    block.keys = min(t->shape.start + (block.row + block.rows - 1) / t->group + 1, attention_keys(t->shape));
    return block;
}

// Index of a row of a pair among the (token, sequence, query head) of q, o and logsumexp.
static size_t query_index(const struct tiling *t, size_t pair, size_t row)
{
    size_t sequence = pair / t->shape.kv_heads, key_head = pair % t->shape.kv_heads;
    return (row / t->group * t->shape.batch + sequence) * t->shape.heads + key_head * t->group + row % t->group;
}

// Index of a key of a pair among the (token, sequence, key head) of k and v.
static size_t key_index(const struct tiling *t, size_t pair, size_t key)
{
    return key * t->pairs + pair;
}

// The block's first column that sees the key: columns before it are masked.
static size_t first_column(const struct tiling *t, const struct block *block, size_t key)
{
    size_t row = key > t->shape.start ? (key - t->shape.start) * t->group : 0;
    return row > block->row ? min(row - block->row, block->columns) : 0;
}

// tile[i, d] = turned[d, i] = factor * source, for TILE_UNIT rows of a pair from `row` on; zero past the last row.
static void gather_rows(const struct tiling *t, size_t pair, size_t row, struct view tile, struct view turned,
                        const stored *source, real factor)
{
    size_t dim = t->shape.head_dim;
    for (size_t i = 0; i < TILE_UNIT; i++) {
        real *to = tile.data + i * tile.row;
        size_t count = row + i < t->rows ? dim : 0;
        const stored *from = source + (count ? query_index(t, pair, row + i) * dim : 0);
        for (size_t d = 0; d < count; d++)
            to[d] = factor * load(from[d]);
        memset(to + count, 0, (t->dim - count) * sizeof(real));
    }
    tile_transpose(turned, tile, TILE_UNIT, t->dim);
}

// [i, d] = source, for `count` keys of a pair from `key` on, and zero up to `rows` rows: as it lies where that
// needs no padding, else gathered in `tile`.
static struct view keys_at(const struct tiling *t, size_t pair, size_t key, size_t count, size_t rows,
                           struct view tile, const stored *source)
{
    size_t dim = t->shape.head_dim;
#if REAL_BITS != 16
    if (count == rows && dim == t->dim)
        return (struct view){(real *)source + key_index(t, pair, key) * dim, (ptrdiff_t)(t->pairs * dim), 1};
#endif
    for (size_t i = 0; i < rows; i++) {
        size_t filled = i < count ? dim : 0;
        const stored *from = source + (filled ? key_index(t, pair, key + i) * dim : 0);
        real *to = tile.data + i * tile.row;
        for (size_t d = 0; d < filled; d++)
            to[d] = load(from[d]);
        memset(tile.data + i * tile.row + filled, 0, (t->dim - filled) * sizeof(real));
    }
    return tile;
}

// S of the columns that do not see a key becomes -infinity: P is zero there. Keys behind the last pad the tile.
static void mask(const struct tiling *t, const struct block *block, size_t key, size_t rows, size_t from,
                 struct view s)
{
    for (size_t i = 0; i < rows; i++) {
        size_t end = key + i < block->keys ? first_column(t, block, key + i) : block->columns;
        for (size_t c = from; c < end; c++)
            s.data[i * s.row + c] = -REAL_INFINITY;
    }
}

// ---- forward

// Running softmax of a block: per column the maximum and the sum of exp(S - maximum) so far.
// S becomes exp(S - new maximum); what was summed before (sum, o) shrinks with the maximum's growth.
static void softmax_step(struct view s, size_t rows, size_t from, size_t columns, real *maximum, real *sum,
                         struct view o, size_t dim)
{
    _Alignas(64) real top[MAX_QUERY_ROWS], shrink[MAX_QUERY_ROWS];
    int grown = 0;
    memcpy(top, maximum, columns * sizeof(real));
    for (size_t i = 0; i < rows; i += TILE_UNIT) {
        const real *row = s.data + i * s.row;
#pragma omp simd
        for (size_t c = from; c < columns; c++) {
            real highest = top[c];
            for (size_t j = 0; j < TILE_UNIT; j++)
                highest = row[j * s.row + c] > highest ? row[j * s.row + c] : highest;
            top[c] = highest;
        }
    }
    for (size_t c = from; c < columns; c++) {
        grown |= top[c] > maximum[c];
        shrink[c] = maximum[c];
        maximum[c] = top[c];
    }
    exp_row(shrink + from, top + from, columns - from);
#pragma omp simd
    for (size_t c = from; c < columns; c++)
        sum[c] *= shrink[c];
    for (size_t i = 0; i < rows; i++)
        exp_sum_row(s.data + i * s.row + from, maximum + from, sum + from, columns - from);
    for (size_t d = 0; grown && d < dim; d++)
#pragma omp simd
        for (size_t c = from; c < columns; c++)
            o.data[d * o.row + c] *= shrink[c];
}

static void forward_block(const struct tiling *t, struct block block, stored *o, real *logsumexp, const stored *q,
                          const stored *k, const stored *v)
{
    size_t dim = t->shape.head_dim;
    _Alignas(64) real rows_data[TILE_UNIT * t->dim_stride];
    _Alignas(64) real q_data[t->dim * t->row_stride], o_data[t->dim * t->row_stride];
    _Alignas(64) real s_data[t->block_keys * t->row_stride];
    _Alignas(64) real k_data[t->block_keys * t->dim_stride], v_data[t->block_keys * t->dim_stride];
    _Alignas(64) real maximum[MAX_QUERY_ROWS], sum[MAX_QUERY_ROWS];
    struct view rows_tile = {rows_data, t->dim_stride, 1};                                // [TILE_UNIT, dim]
    struct view q_tile = {q_data, t->row_stride, 1}, o_tile = {o_data, t->row_stride, 1}; // [dim, columns]
    struct view s_tile = {s_data, t->row_stride, 1};                                      // [keys, columns]
    struct view k_tile = {k_data, t->dim_stride, 1}, v_tile = {v_data, t->dim_stride, 1}; // [keys, dim]

    for (size_t c = 0; c < block.columns; c += TILE_UNIT)
        gather_rows(t, block.pair, block.row + c, rows_tile, view_at(q_tile, 0, c), q, t->scale);
    memset(o_data, 0, sizeof(o_data));
    for (size_t c = 0; c < block.columns; c++)
        maximum[c] = REAL_LOWEST, sum[c] = 0;

    size_t key_blocks = ceil_div(block.keys, t->block_keys);
    for (size_t j = 0; j < key_blocks; j++) {
        size_t key = (t->reverse ? key_blocks - 1 - j : j) * t->block_keys;
        size_t keys = min(t->block_keys, block.keys - key), rows = tile_round(keys);
        size_t from = first_column(t, &block, key) / TILE_UNIT * TILE_UNIT, columns = block.columns - from;
        struct view keys_k = keys_at(t, block.pair, key, keys, rows, k_tile, k);
        struct view keys_v = keys_at(t, block.pair, key, keys, rows, v_tile, v);
        tile_multiply(view_at(s_tile, 0, from), false, keys_k, view_at(q_tile, 0, from), rows, columns, dim,
                      t->reverse);
        mask(t, &block, key, rows, from, s_tile);
        softmax_step(s_tile, rows, from, block.columns, maximum, sum, o_tile, t->dim);
        tile_multiply(view_at(o_tile, 0, from), true, view_transposed(keys_v), view_at(s_tile, 0, from), t->dim,
                      columns, keys, t->reverse);
    }
    for (size_t c = 0; c < block.rows; c++) {
        if (c % TILE_UNIT == 0)
            tile_transpose(rows_tile, view_at(o_tile, 0, c), t->dim, TILE_UNIT);
        size_t index = query_index(t, block.pair, block.row + c);
        const real *from = rows_data + c % TILE_UNIT * rows_tile.row;
        for (size_t d = 0; d < dim; d++)
            // Columns from rows on pad the last tile; sum is set for all. NOLINTNEXTLINE(clang-analyzer-core.*)
            o[index * dim + d] = store(from[d] / sum[c]);
        logsumexp[index] = maximum[c] + (real)log((double)sum[c]);
    }
}

void NAME(attention_forward)(struct device *device, struct attention_shape shape, struct tensor o,
                             struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    struct tiling t = tiling_of(shape, device->reverse_sums);
    // The last blocks see the most keys: begun first, they leave no thread waiting at the end.
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < t.blocks * t.pairs; i++)
        forward_block(&t, block_of(&t, i % t.pairs, t.blocks - 1 - i / t.pairs), o.data, logsumexp.data, q.data,
                      k.data, v.data);
}

// ---- backward
//
// Query blocks run one after another, since grad_q may be grad_o: a block's rows are spent when its grad_q is
// written. Within a block the keys are dealt out to lanes: each lane alone adds to its keys' gradients and sums its
// own part of grad_q; the parts are then added in the order of the lanes. No thread waits for that to end, since
// filling the slots with the next block touches neither the parts nor the rows that are being written.

// What the lanes of one pair share: a query block both ways round, and each lane's part of grad_q.
struct slot {
    struct view q, grad_o;               // [columns, dim], q times scale
    struct view q_turned, grad_o_turned; // [dim, columns]
    real *logsumexp, *delta;             // [columns]
    struct view grad_q;                  // [lanes * dim, columns]: grad_q / scale, transposed
};

static size_t slot_count(const struct tiling *t)
{
    return 2 * t->block_rows * t->dim_stride + (2 + t->lanes) * t->dim * t->row_stride + 2 * t->row_stride;
}

static struct slot slot_at(const struct tiling *t, real *workspace, size_t index)
{
    size_t by_row = t->block_rows * t->dim_stride, by_dim = t->dim * t->row_stride;
    real *data = workspace + index * slot_count(t);
    return (struct slot){
        .q = {data, t->dim_stride, 1},
        .grad_o = {data + by_row, t->dim_stride, 1},
        .q_turned = {data + 2 * by_row, t->row_stride, 1},
        .grad_o_turned = {data + 2 * by_row + by_dim, t->row_stride, 1},
        .logsumexp = data + 2 * by_row + 2 * by_dim,
        .delta = data + 2 * by_row + 2 * by_dim + t->row_stride,
        .grad_q = {data + 2 * by_row + 2 * by_dim + 2 * t->row_stride, t->row_stride, 1},
    };
}

// Fills TILE_UNIT columns of a slot.
static void slot_fill(const struct tiling *t, struct slot slot, struct block block, size_t column,
                      const stored *grad_o, const stored *o, const real *logsumexp, const stored *q)
{
    size_t dim = t->shape.head_dim, row = block.row + column;
    gather_rows(t, block.pair, row, view_at(slot.q, column, 0), view_at(slot.q_turned, 0, column), q, t->scale);
    gather_rows(t, block.pair, row, view_at(slot.grad_o, column, 0), view_at(slot.grad_o_turned, 0, column), grad_o,
                1);
    for (size_t c = column; c < column + TILE_UNIT; c++) {
        bool filled = c < block.rows;
        size_t index = filled ? query_index(t, block.pair, block.row + c) : 0;
        real delta = 0;
#pragma omp simd reduction(+ : delta)
        for (size_t d = 0; d < (filled ? dim : 0); d++)
            delta += load(grad_o[index * dim + d]) * load(o[index * dim + d]);
        slot.delta[c] = delta;
        slot.logsumexp[c] = filled ? logsumexp[index] : 0;
    }
}

// Writes TILE_UNIT rows of grad_q: the sum of the lanes that had keys.
static void slot_reduce(const struct tiling *t, struct slot slot, struct block block, size_t column, size_t lanes,
                        stored *grad_q)
{
    size_t dim = t->shape.head_dim;
    _Alignas(64) real sum_data[t->dim * TILE_UNIT], rows_data[TILE_UNIT * t->dim_stride];
    struct view sum = {sum_data, TILE_UNIT, 1}, rows = {rows_data, t->dim_stride, 1};
    memset(sum_data, 0, sizeof(sum_data));
    for (size_t i = 0; i < lanes; i++) {
        size_t lane = t->reverse ? lanes - 1 - i : i;
        struct view part = view_at(slot.grad_q, lane * t->dim, column);
        for (size_t d = 0; d < dim; d++)
            for (size_t c = 0; c < TILE_UNIT; c++)
                sum_data[d * TILE_UNIT + c] += part.data[d * part.row + c];
    }
    tile_transpose(rows, sum, t->dim, TILE_UNIT);
    for (size_t c = 0; c < min(TILE_UNIT, block.rows - column); c++) {
        stored *to = grad_q + query_index(t, block.pair, block.row + column + c) * dim;
        const real *from = rows_data + c * rows.row;
        for (size_t d = 0; d < dim; d++)
            to[d] = store(t->accumulate ? load(to[d]) + t->scale * from[d] : t->scale * from[d]);
    }
}

// grad[n] += the sum over columns c of tile[n - key, c] * right[c, :], for the keys n in [first, end).
// tile: [keys from `key` on, columns], right: [columns, dim], grad: the segment's, which begins at key `start`.
static void add_to_keys(const struct tiling *t, size_t pair, size_t start, size_t first, size_t end, real *grad,
                        struct view tile, size_t key, struct view right, size_t columns)
{
    _Alignas(64) real sum_data[t->block_keys * t->dim_stride];
    struct view sum = {sum_data, t->dim_stride, 1};
    size_t dim = t->shape.head_dim, row = (first - key) / TILE_ROWS * TILE_ROWS;
    tile_multiply(sum, false, view_at(tile, row, 0), right, ceil_div(end - key - row, TILE_ROWS) * TILE_ROWS,
                  t->dim, columns, t->reverse);
    for (size_t n = first; n < end; n++) {
        real *to = grad + key_index(t, pair, n - start) * dim;
        const real *from = sum_data + (n - key - row) * t->dim_stride;
#pragma omp simd
        for (size_t d = 0; d < dim; d++)
            to[d] += from[d];
    }
}

static void backward_lane(const struct tiling *t, struct slot slot, struct block block, size_t lane,
                          const struct key_segment *segments, size_t segment_count, const stored *k,
                          const stored *v)
{
    size_t dim = t->shape.head_dim;
    size_t key_blocks = ceil_div(ceil_div(block.keys, t->block_keys) - lane, t->lanes); // lane, lane + lanes, ...
    _Alignas(64) real p_data[t->block_keys * t->row_stride], ds_data[t->block_keys * t->row_stride];
    _Alignas(64) real k_data[t->block_keys * t->dim_stride], v_data[t->block_keys * t->dim_stride];
    struct view p_tile = {p_data, t->row_stride, 1}, ds_tile = {ds_data, t->row_stride, 1}; // [keys, columns]
    struct view k_tile = {k_data, t->dim_stride, 1}, v_tile = {v_data, t->dim_stride, 1};   // [keys, dim]
    struct view grad_q = view_at(slot.grad_q, lane * t->dim, 0);
    memset(grad_q.data, 0, t->dim * t->row_stride * sizeof(real));
    for (size_t j = 0; j < key_blocks; j++) {
        size_t key = (lane + (t->reverse ? key_blocks - 1 - j : j) * t->lanes) * t->block_keys;
        size_t keys = min(t->block_keys, block.keys - key), rows = tile_round(keys);
        size_t from = first_column(t, &block, key) / TILE_UNIT * TILE_UNIT, columns = block.columns - from;
        struct view keys_k = keys_at(t, block.pair, key, keys, rows, k_tile, k);
        struct view keys_v = keys_at(t, block.pair, key, keys, rows, v_tile, v);
        struct view p = view_at(p_tile, 0, from), ds = view_at(ds_tile, 0, from);
        tile_multiply(p, false, keys_k, view_at(slot.q_turned, 0, from), rows, columns, dim, t->reverse);
        tile_multiply(ds, false, keys_v, view_at(slot.grad_o_turned, 0, from), rows, columns, dim, t->reverse);
        mask(t, &block, key, rows, from, p_tile);
        for (size_t i = 0; i < rows; i++)
            scores_row(p.data + i * p.row, ds.data + i * ds.row, slot.logsumexp + from, slot.delta + from, columns);
        for (size_t i = 0; i < segment_count; i++) {
            struct key_segment to = segments[i];
            size_t first = max(key, to.start), end = min(key + keys, to.start + to.count);
            if (first >= end)
                continue;
            add_to_keys(t, block.pair, to.start, first, end, to.grad_k.data, ds, key, view_at(slot.q, from, 0),
                        columns);
            add_to_keys(t, block.pair, to.start, first, end, to.grad_v.data, p, key, view_at(slot.grad_o, from, 0),
                        columns);
        }
        tile_multiply(view_at(grad_q, 0, from), true, view_transposed(keys_k), ds, t->dim, columns, keys,
                      t->reverse);
    }
}

static void backward(const struct tiling *t, stored *grad_q, const struct key_segment *segments,
                     size_t segment_count, const stored *grad_o, const stored *o, const real *logsumexp,
                     const stored *q, const stored *k, const stored *v, real *workspace)
{
#pragma omp parallel
    for (size_t pair = 0; pair < t->pairs; pair += t->slots)
        for (size_t b = 0; b < t->blocks; b++) {
            size_t index = t->reverse ? t->blocks - 1 - b : b, slots = min(t->slots, t->pairs - pair);
            struct block block = block_of(t, pair, index);
            size_t strips = block.columns / TILE_UNIT;
            size_t lanes = min(t->lanes, ceil_div(block.keys, t->block_keys));
#pragma omp for
            for (size_t i = 0; i < slots * strips; i++)
                slot_fill(t, slot_at(t, workspace, i / strips), block_of(t, pair + i / strips, index),
                          i % strips * TILE_UNIT, grad_o, o, logsumexp, q);
#pragma omp for schedule(dynamic)
            for (size_t i = 0; i < slots * lanes; i++)
                backward_lane(t, slot_at(t, workspace, i % slots), block_of(t, pair + i % slots, index), i / slots,
                              segments, segment_count, k, v);
#pragma omp for nowait
            for (size_t i = 0; i < slots * strips; i++)
                slot_reduce(t, slot_at(t, workspace, i / strips), block_of(t, pair + i / strips, index),
                            i % strips * TILE_UNIT, lanes, grad_q);
        }
}

// Elements of a narrow gradient of keys or values: all query blocks are summed in real before it is rounded, once.
static size_t staged_count(const struct key_segment *segment)
{
    return segment->grad_k.dtype == DTYPE_BF16 ? tensor_count(segment->grad_k) : 0;
}

static struct tensor stage(struct device *device, real **next, size_t count)
{
    struct tensor staged = {.data = *next, .dtype = DTYPE_F32, .rows = 1, .cols = count};
    NAME(zero)(device, staged);
    *next += count;
    return staged;
}

static void add_staged(struct tensor grad, const real *staged)
{
    struct accumulator to = accumulator_of(grad);
    size_t count = tensor_count(grad);
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < count; i++)
        accumulator_set(to, i, accumulator_get(to, i) + staged[i]);
}

void NAME(attention_backward)(struct device *device, struct attention_shape shape, struct tensor grad_q,
                              bool accumulate, const struct key_segment *segments, size_t segment_count,
                              struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                              struct tensor k, struct tensor v, struct tensor workspace)
{
    struct tiling t = tiling_of(shape, device->reverse_sums);
    t.accumulate = accumulate;
    real *next = (real *)workspace.data + t.slots * slot_count(&t);
    struct key_segment *to = malloc((segment_count + 1) * sizeof *to);
    CHECK(to);
    for (size_t i = 0; i < segment_count; i++) {
        size_t count = staged_count(&segments[i]);
        to[i] = segments[i];
        if (count) {
            to[i].grad_k = stage(device, &next, count);
            to[i].grad_v = stage(device, &next, count);
        }
    }
    backward(&t, grad_q.data, to, segment_count, grad_o.data, o.data, logsumexp.data, q.data, k.data, v.data,
             workspace.data);
    for (size_t i = 0; i < segment_count; i++) {
        if (staged_count(&segments[i])) {
            add_staged(segments[i].grad_k, to[i].grad_k.data);
            add_staged(segments[i].grad_v, to[i].grad_v.data);
        }
    }
    free(to);
}

size_t NAME(attention_backward_workspace)(const struct device *device, struct attention_shape shape,
                                          const struct key_segment *segments, size_t segment_count)
{
    (void)device;
    struct tiling t = tiling_of(shape, false);
    size_t count = t.slots * slot_count(&t);
    for (size_t i = 0; i < segment_count; i++)
        count += 2 * staged_count(&segments[i]);
    return count * sizeof(real);
}
