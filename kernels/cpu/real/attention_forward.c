// Attention's forward, tile by tile (Dao 2023, arXiv 2307.08691): no queries x keys matrix is stored.
//
//   S = q k^T * scale, capped, masked;  P = softmax(S);  o = P v;  logsumexp of the rows of S is kept
#include "kernels/cpu/real/attention_tiling.h"
#include "kernels/cpu/real/scores.h"
#include <float.h>

#if REAL_BITS == 64
#define REAL_LOWEST (-DBL_MAX)
#else
#define REAL_LOWEST (-FLT_MAX)
#endif

// Running softmax of a block with S = scale * s: per column the maximum and the sum of exp(S - maximum). s becomes
// exp(S - new maximum); earlier sums (sum, o) are rescaled.
static void softmax_step(struct view s, real scale, size_t rows, size_t from, size_t columns, real *maximum,
                         real *sum, struct view o, size_t dim)
{
    _Alignas(64) real top[MAX_QUERY_ROWS], shrink[MAX_QUERY_ROWS];
    int grown = 0;
    for (size_t c = from; c < columns; c++)
        top[c] = REAL_LOWEST;
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
        real highest = scale * top[c] > maximum[c] ? scale * top[c] : maximum[c];
        grown |= highest > maximum[c];
        shrink[c] = maximum[c];
        maximum[c] = highest;
    }
    exp_row(shrink + from, 1, maximum + from, columns - from);
#pragma omp simd
    for (size_t c = from; c < columns; c++)
        sum[c] *= shrink[c];
    for (size_t i = 0; i < rows; i++)
        exp_sum_row(s.data + i * s.row + from, scale, maximum + from, sum + from, columns - from);
    for (size_t d = 0; grown && d < dim; d++)
#pragma omp simd
        for (size_t c = from; c < columns; c++)
            o.data[d * o.row + c] *= shrink[c];
}

static void forward_block(const struct tiling *t, struct block block, stored *o, real *logsumexp, const stored *q,
                          const stored *k, const stored *v)
{
    const struct width of_k = t->keys, of_v = t->values;
    struct width longer = of_k.padded > of_v.padded ? of_k : of_v;
    _Alignas(64) real rows_data[TILE_UNIT * longer.stride];
    _Alignas(64) real q_data[of_k.padded * t->row_stride], o_data[of_v.padded * t->row_stride];
    _Alignas(64) real s_data[t->block_keys * t->row_stride];
    _Alignas(64) real k_data[t->block_keys * of_k.stride], v_data[t->block_keys * of_v.stride];
    _Alignas(64) real maximum[MAX_QUERY_ROWS], sum[MAX_QUERY_ROWS];
    _Alignas(64) uint16_t q_room[tile_room(t->sums, block.columns, of_k.padded)];
    _Alignas(64) uint16_t p_room[tile_room(t->sums, block.columns, t->block_keys)];
    _Alignas(64) uint16_t k_room[tile_room(t->sums, t->block_keys, of_k.padded)];
    _Alignas(64) uint16_t v_room[tile_room(t->sums, of_v.padded, t->block_keys)];
    struct view rows_tile = {rows_data, longer.stride, 1};                                // [TILE_UNIT, longer]
    struct view q_tile = {q_data, t->row_stride, 1}, o_tile = {o_data, t->row_stride, 1}; // [dim, columns]
    struct view s_tile = {s_data, t->row_stride, 1};                                      // [keys, columns]
    struct view k_tile = {k_data, of_k.stride, 1}, v_tile = {v_data, of_v.stride, 1};     // [keys, dim]

    for (size_t c = 0; c < block.columns; c += TILE_UNIT)
        gather_rows(t, block.pair, block.row + c, of_k, rows_tile, view_at(q_tile, 0, c), q, t->q_scale);
    struct factor queries = tile_right(t->sums, q_tile, of_k.padded, block.columns, q_room);
    memset(o_data, 0, sizeof(o_data));
    for (size_t c = 0; c < block.columns; c++)
        maximum[c] = REAL_LOWEST, sum[c] = 0;

    size_t tiles = tile_count(t, &block);
    for (size_t j = 0; j < tiles; j++) {
        size_t key = tile_key(t, &block, t->reverse ? tiles - 1 - j : j);
        size_t keys = min(t->block_keys, block.keys - key), rows = tile_round(keys);
        struct chunks seeing = chunks_of(t, &block, key, keys);
        size_t from = seeing.from, columns = seeing.to - from;
        struct view keys_k = keys_at(t, block.pair, key, keys, rows, of_k, k_tile, k);
        struct view keys_v = keys_at(t, block.pair, key, keys, rows, of_v, v_tile, v);
        struct view seen = view_at(s_tile, 0, from);
        tile_multiply(seen, false, tile_left(t->sums, keys_k, rows, of_k.padded, k_room),
                      tile_right_at(queries, 0, from), rows, columns, of_k.dim, t->sums);
        for (size_t i = 0; t->cap > 0 && i < rows; i++)
            cap_row(seen.data + i * seen.row, t->s_scale, t->cap, columns);
        mask(t, &block, key, rows, seeing, s_tile);
        softmax_step(s_tile, t->exp_scale, rows, from, seeing.to, maximum, sum, o_tile, of_v.padded);
        tile_multiply(view_at(o_tile, 0, from), true,
                      tile_left(t->sums, view_transposed(keys_v), of_v.padded, keys, v_room),
                      tile_right(t->sums, seen, keys, columns, p_room), of_v.padded, columns, keys, t->sums);
    }
    for (size_t c = 0; c < block.rows; c++) {
        if (c % TILE_UNIT == 0)
            tile_transpose(rows_tile, view_at(o_tile, 0, c), of_v.padded, TILE_UNIT);
        size_t index = query_index(t, block.pair, block.row + c);
        const real *from = rows_data + c % TILE_UNIT * rows_tile.row;
        for (size_t d = 0; d < of_v.dim; d++)
            // Columns from rows on pad the last tile; sum is set for all. NOLINTNEXTLINE(clang-analyzer-core.*)
            o[index * of_v.dim + d] = store(sum[c] == 0 ? 0 : from[d] / sum[c]);
        // As above. NOLINTNEXTLINE(clang-analyzer-core.*)
        logsumexp[index] = maximum[c] + (real)log((double)sum[c]);
    }
}

void NAME(attention_forward)(struct device *device, struct attention_shape shape, struct tensor o,
                             struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    struct tiling t = tiling_of(shape, device->reverse_sums);
    // The last blocks see the most keys; starting with them balances the threads.
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < t.blocks * t.pairs; i++)
        forward_block(&t, block_of(&t, i % t.pairs, t.blocks - 1 - i / t.pairs), o.data, logsumexp.data, q.data,
                      k.data, v.data);
}
