// Attention's backward, tile by tile (Dao 2023, arXiv 2307.08691):
//
//   P = exp(S - logsumexp), delta = rowsum(grad_o * o), dS = P * (grad_o v^T - delta)
//   with a cap of S, dS *= 1 - (S / cap)^2
//   grad_q = dS k * scale;  grad_k += dS^T q * scale;  grad_v += P^T grad_o
//
// Query blocks run in order, because grad_q may be grad_o: writing a block's grad_q overwrites its rows. Within a
// block the keys are distributed over lanes: only one lane adds to a key's gradients, and each sums its own part of
// grad_q; the parts are then added in lane order. Threads need not wait for that, because filling the next block
// touches neither the parts nor the rows being written.
#include "kernels/cpu/real/attention_tiling.h"
#include "kernels/cpu/real/scores.h"

// Data that the lanes of one pair share: a query block in both layouts, as right factors, and each lane's part of
// grad_q.
struct slot {
    struct factor q, grad_o;               // [columns, dim], q times q_scale; grad_o's dim is that of values
    struct factor q_turned, grad_o_turned; // [dim, columns]
    real *logsumexp, *delta;               // [columns]
    struct view grad_q;                    // [lanes * dim, columns]: grad_q / scale, transposed
};

static size_t slot_count(const struct tiling *t)
{
    size_t by_dim = (1 + t->lanes) * t->keys.padded + t->values.padded;
    return t->block_rows * (t->keys.stride + t->values.stride) + by_dim * t->row_stride + 2 * t->row_stride;
}

// Right factors in the memory of matrices of reals, which is enough when they are packed.
static struct factor rows_at(const struct tiling *t, struct width width, real *data)
{
    struct view view = {data, width.stride, 1};
    return tile_factor(t->sums, view, t->block_rows, (void *)data);
}
static struct factor turned_at(const struct tiling *t, struct width width, real *data)
{
    struct view view = {data, t->row_stride, 1};
    return tile_factor(t->sums, view, width.padded, (void *)data);
}

static struct slot slot_at(const struct tiling *t, real *workspace, size_t index)
{
    real *q = workspace + index * slot_count(t), *grad_o = q + t->block_rows * t->keys.stride;
    real *q_turned = grad_o + t->block_rows * t->values.stride;
    real *grad_o_turned = q_turned + t->keys.padded * t->row_stride;
    real *logsumexp = grad_o_turned + t->values.padded * t->row_stride;
    return (struct slot){
        .q = rows_at(t, t->keys, q),
        .grad_o = rows_at(t, t->values, grad_o),
        .q_turned = turned_at(t, t->keys, q_turned),
        .grad_o_turned = turned_at(t, t->values, grad_o_turned),
        .logsumexp = logsumexp,
        .delta = logsumexp + t->row_stride,
        .grad_q = {logsumexp + 2 * t->row_stride, t->row_stride, 1},
    };
}

// Copies a strip of a block's rows to columns [column, column + columns) of two factors, through a buffer if they
// are packed.
static void fill_factors(const struct tiling *t, struct block block, size_t column, size_t columns,
                         struct width width, struct factor rows, struct factor turned, const stored *source,
                         real factor)
{
    bool packed = tile_packs(t->sums);
    _Alignas(64) real rows_data[packed ? STRIP * width.stride : 1], turned_data[packed ? width.padded * STRIP : 1];
    struct factor rows_part = tile_right_at(rows, column, 0), turned_part = tile_right_at(turned, 0, column);
    struct view rows_tile = packed ? (struct view){rows_data, width.stride, 1} : rows_part.view;
    struct view turned_tile = packed ? (struct view){turned_data, STRIP, 1} : turned_part.view;
    for (size_t c = 0; c < columns; c += TILE_UNIT)
        gather_rows(t, block.pair, block.row + column + c, width, view_at(rows_tile, c, 0),
                    view_at(turned_tile, 0, c), source, factor);
    tile_pack_right(t->sums, rows_part, rows_tile, columns, width.padded);
    tile_pack_right(t->sums, turned_part, turned_tile, width.padded, columns);
}

// Fills a strip of a slot's columns.
static void slot_fill(const struct tiling *t, struct slot slot, struct block block, size_t column,
                      const stored *grad_o, const stored *o, const real *logsumexp, const stored *q)
{
    size_t dim = t->values.dim, columns = min(STRIP, block.columns - column);
    fill_factors(t, block, column, columns, t->keys, slot.q, slot.q_turned, q, t->q_scale);
    fill_factors(t, block, column, columns, t->values, slot.grad_o, slot.grad_o_turned, grad_o, 1);
    for (size_t c = column; c < column + columns; c++) {
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

// Writes TILE_UNIT rows of grad_q: the sum over the lanes with keys.
static void slot_reduce(const struct tiling *t, struct slot slot, struct block block, size_t column, size_t lanes,
                        stored *grad_q)
{
    size_t dim = t->keys.dim;
    _Alignas(64) real sum_data[t->keys.padded * TILE_UNIT], rows_data[TILE_UNIT * t->keys.stride];
    struct view sum = {sum_data, TILE_UNIT, 1}, rows = {rows_data, t->keys.stride, 1};
    memset(sum_data, 0, sizeof(sum_data));
    for (size_t i = 0; i < lanes; i++) {
        size_t lane = t->reverse ? lanes - 1 - i : i;
        struct view part = view_at(slot.grad_q, lane * t->keys.padded, column);
        for (size_t d = 0; d < dim; d++)
            for (size_t c = 0; c < TILE_UNIT; c++)
                sum_data[d * TILE_UNIT + c] += part.data[d * part.row + c];
    }
    tile_transpose(rows, sum, t->keys.padded, TILE_UNIT);
    for (size_t c = 0; c < min(TILE_UNIT, block.rows - column); c++) {
        stored *to = grad_q + query_index(t, block.pair, block.row + column + c) * dim;
        const real *from = rows_data + c * rows.row;
        for (size_t d = 0; d < dim; d++)
            to[d] = store(t->accumulate ? load(to[d]) + t->scale * from[d] : t->scale * from[d]);
    }
}

// grad[n] += scale * the sum over columns c of tile[n - key, c] * right[c, :], for the keys n in [first, end).
// tile: [keys from `key` on, columns], right: [columns, dim], grad: the segment's, which begins at key `start`.
static void add_to_keys(const struct tiling *t, size_t pair, size_t start, size_t first, size_t end,
                        struct width width, real *grad, real scale, struct factor tile, size_t key,
                        struct factor right, size_t columns)
{
    _Alignas(64) real sum_data[t->block_keys * width.stride];
    struct view sum = {sum_data, width.stride, 1};
    size_t dim = width.dim, row = (first - key) / TILE_UNIT * TILE_UNIT;
    tile_multiply(sum, false, tile_left_at(tile, row), right, tile_round(end - key - row), width.padded, columns,
                  t->sums);
    for (size_t n = first; n < end; n++) {
        real *to = grad + key_index(t, pair, n - start) * dim;
        const real *from = sum_data + (n - key - row) * width.stride;
#pragma omp simd
        for (size_t d = 0; d < dim; d++)
            to[d] += scale * from[d];
    }
}

static void backward_lane(const struct tiling *t, struct slot slot, struct block block, size_t lane,
                          const struct key_segment *segments, size_t segment_count, const stored *k,
                          const stored *v)
{
    static const real nothing[MAX_QUERY_ROWS]; // a cap's gradient has taken off delta
    const real *delta = t->cap > 0 ? nothing : slot.delta;
    const struct width of_k = t->keys, of_v = t->values;
    size_t all = tile_count(t, &block);
    size_t tiles = all > lane ? ceil_div(all - lane, t->lanes) : 0; // lane, lane + lanes, ...
    _Alignas(64) real p_data[t->block_keys * t->row_stride], ds_data[t->block_keys * t->row_stride];
    _Alignas(64) real k_data[t->block_keys * of_k.stride], v_data[t->block_keys * of_v.stride];
    // Sides of packed factors, left or right.
    size_t side_keys = round_up(t->block_keys, STRIP), side_dim = round_up(max(of_k.padded, of_v.padded), STRIP);
    size_t side_columns = round_up(block.columns, STRIP);
    _Alignas(64) uint16_t keys_room[tile_room(t->sums, side_keys, side_dim)];
    _Alignas(64) uint16_t p_room[tile_room(t->sums, side_keys, side_columns)];
    _Alignas(64) uint16_t ds_room[tile_room(t->sums, side_keys, side_columns)];
    struct view p_tile = {p_data, t->row_stride, 1}, ds_tile = {ds_data, t->row_stride, 1}; // [keys, columns]
    struct view k_tile = {k_data, of_k.stride, 1}, v_tile = {v_data, of_v.stride, 1};       // [keys, dim]
    struct view grad_q = view_at(slot.grad_q, lane * of_k.padded, 0);
    memset(grad_q.data, 0, of_k.padded * t->row_stride * sizeof(real));
    for (size_t j = 0; j < tiles; j++) {
        size_t key = tile_key(t, &block, lane + (t->reverse ? tiles - 1 - j : j) * t->lanes);
        size_t keys = min(t->block_keys, block.keys - key), rows = tile_round(keys);
        struct chunks seeing = chunks_of(t, &block, key, keys);
        size_t from = seeing.from, columns = seeing.to - from;
        struct view keys_k = keys_at(t, block.pair, key, keys, rows, of_k, k_tile, k);
        struct view keys_v = keys_at(t, block.pair, key, keys, rows, of_v, v_tile, v);
        struct view p = view_at(p_tile, 0, from), ds = view_at(ds_tile, 0, from);
        tile_multiply(p, false, tile_left(t->sums, keys_k, rows, of_k.padded, keys_room),
                      tile_right_at(slot.q_turned, 0, from), rows, columns, of_k.dim, t->sums);
        tile_multiply(ds, false, tile_left(t->sums, keys_v, rows, of_v.padded, keys_room),
                      tile_right_at(slot.grad_o_turned, 0, from), rows, columns, of_v.dim, t->sums);
        for (size_t i = 0; t->cap > 0 && i < rows; i++) {
            cap_row(p.data + i * p.row, t->s_scale, t->cap, columns);
            cap_gradient_row(ds.data + i * ds.row, p.data + i * p.row, t->cap, slot.delta + from, columns);
        }
        mask(t, &block, key, rows, seeing, p_tile);
        for (size_t i = 0; i < rows; i++)
            scores_row(p.data + i * p.row, t->exp_scale, ds.data + i * ds.row, slot.logsumexp + from, delta + from,
                       columns);
        struct factor left_p = tile_left(t->sums, p, rows, columns, p_room);
        struct factor left_ds = tile_left(t->sums, ds, rows, columns, ds_room);
        for (size_t i = 0; i < segment_count; i++) {
            struct key_segment to = segments[i];
            size_t first = max(key, to.start), end = min(key + keys, to.start + to.count);
            if (first >= end)
                continue;
            add_to_keys(t, block.pair, to.start, first, end, of_k, to.grad_k.data, t->s_scale, left_ds, key,
                        tile_right_at(slot.q, from, 0), columns);
            add_to_keys(t, block.pair, to.start, first, end, of_v, to.grad_v.data, 1, left_p, key,
                        tile_right_at(slot.grad_o, from, 0), columns);
        }
        tile_multiply(view_at(grad_q, 0, from), true,
                      tile_left(t->sums, view_transposed(keys_k), of_k.padded, keys, keys_room),
                      tile_right(t->sums, ds, keys, columns, ds_room), of_k.padded, columns, keys, t->sums);
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
            size_t strips = ceil_div(block.columns, STRIP), units = block.columns / TILE_UNIT;
            size_t lanes = min(t->lanes, ceil_div(block.keys, t->block_keys));
#pragma omp for
            for (size_t i = 0; i < slots * strips; i++)
                slot_fill(t, slot_at(t, workspace, i / strips), block_of(t, pair + i / strips, index),
                          i % strips * STRIP, grad_o, o, logsumexp, q);
#pragma omp for schedule(dynamic)
            for (size_t i = 0; i < slots * lanes; i++)
                backward_lane(t, slot_at(t, workspace, i % slots), block_of(t, pair + i % slots, index), i / slots,
                              segments, segment_count, k, v);
#pragma omp for nowait
            for (size_t i = 0; i < slots * units; i++)
                slot_reduce(t, slot_at(t, workspace, i / units), block_of(t, pair + i / units, index),
                            i % units * TILE_UNIT, lanes, grad_q);
        }
}

// Elements of a bf16 gradient of keys or values: all query blocks are summed in real before one rounding.
static size_t staged_count(struct tensor grad)
{
    return grad.dtype == DTYPE_BF16 ? tensor_count(grad) : 0;
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

static void add_stochastic(struct tensor grad, const real *staged, struct bf16_rounding rounding)
{
    struct accumulator to = accumulator_of(grad);
    size_t groups = key_rounding_groups(grad.cols);
#pragma omp parallel for schedule(static)
    for (size_t g = 0; g < grad.rows * groups; g++) {
        size_t col = g % groups * KEY_ROUNDING_GROUP, first = g / groups * grad.cols + col;
        struct rounding_bits bits = rounding_bits(&rounding, g);
        for (size_t i = 0; i < min(KEY_ROUNDING_GROUP, grad.cols - col); i++)
            accumulator_set(to, first + i,
                            stochastic_bf16((float)(accumulator_get(to, first + i) + staged[first + i]), &bits, i));
    }
}

static void add_to_segment(struct attention_shape shape, const struct key_segment *segment, const real *grad_k,
                           const real *grad_v)
{
    const struct key_rounding *how = &segment->rounding;
    size_t row = (how->origin + segment->start) * shape.batch;
    uint64_t first_k = row * key_rounding_groups(segment->grad_k.cols);
    uint64_t first_v = row * key_rounding_groups(segment->grad_v.cols);
    if (how->stochastic) {
        add_stochastic(segment->grad_k, grad_k, key_rounding_of(how, how->grad_k, shape.start, first_k));
        add_stochastic(segment->grad_v, grad_v, key_rounding_of(how, how->grad_v, shape.start, first_v));
    } else {
        add_staged(segment->grad_k, grad_k);
        add_staged(segment->grad_v, grad_v);
    }
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
    for (size_t i = 0; i < segment_count; i++) {
        size_t of_k = staged_count(segments[i].grad_k), of_v = staged_count(segments[i].grad_v);
        to[i] = segments[i];
        if (of_k) {
            to[i].grad_k = stage(device, &next, of_k);
            to[i].grad_v = stage(device, &next, of_v);
        }
    }
    backward(&t, grad_q.data, to, segment_count, grad_o.data, o.data, logsumexp.data, q.data, k.data, v.data,
             workspace.data);
    for (size_t i = 0; i < segment_count; i++)
        if (staged_count(segments[i].grad_k))
            add_to_segment(shape, &segments[i], to[i].grad_k.data, to[i].grad_v.data);
    free(to);
}

size_t NAME(attention_backward_workspace)(const struct device *device, struct attention_shape shape,
                                          const struct key_segment *segments, size_t segment_count)
{
    struct tiling t = tiling_of(shape, false);
    size_t count = t.slots * slot_count(&t);
    for (size_t i = 0; i < segment_count; i++)
        count += staged_count(segments[i].grad_k) + staged_count(segments[i].grad_v);
    return count * sizeof(real);
}
