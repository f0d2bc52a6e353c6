// Attention's backward by our own kernels, tile by tile (Dao 2023, arXiv 2307.08691), for f64, f32 and, in a fixed
// order, bf16:
//
//   P = exp(S - logsumexp), delta = rowsum(grad_o * o), dS = P * (grad_o v^T - delta)
//   with a cap of S, dS *= 1 - (S / cap)^2
//   grad_q = dS k * scale;  grad_k += dS^T q * scale;  grad_v += P^T grad_o
//
// Two kernels, each of which recomputes P: one block per tile of keys loops over the queries that see it, with
// grad_k and grad_v in registers; then one block per tile of queries loops over its keys, with grad_q. Blocks do
// not wait for each other, no sum depends on their order, and no queries x keys matrix is stored. Keys first:
// grad_q may be grad_o, and a block of queries reads only the rows of grad_o that it replaces.
#include "kernels/cuda/kernels/attention_tile.cuh"

namespace
{

using namespace attention;

// delta and logsumexp of the rows of a tile of queries; 0 from row `count` on, where grad_o's tile is 0 too.
template <int DIM, int R, class T, class A>
__device__ void row_statistics(A *delta, A *row_logsumexp, const A *grad_o_tile, head<const T> o,
                               head<const A> logsumexp, size_t first, int count, int dim)
{
    using tile = struct tile<A, DIM, R>;
    int lane = threadIdx.x % 32;
    for (int row = threadIdx.x / 32; row < tile::ROWS; row += THREADS / 32) {
        A sum = 0;
        if (row < count)
            for (int d = lane; d < dim; d += 32)
                sum += grad_o_tile[row * tile::STRIDE + d] * widen<A>(o.token(first + row)[d]);
        sum = warp_sum(sum);
        if (lane == 0) {
            delta[row] = sum;
            row_logsumexp[row] = row < count ? *logsumexp.token(first + row) : A(0);
        }
    }
}

// As many key segments as one launch takes; a block of keys belongs to one of them.
constexpr int SEGMENTS = 32;
struct segment_list {
    int count;
    bool wide; // grad_k and grad_v are in the accumulator dtype; else in q's
    struct bf16_rounding grad_k, grad_v;
    size_t origin; // of the rounding
    struct {
        size_t start, count;
        void *grad_k, *grad_v;
        unsigned end; // of its blocks
    } at[SEGMENTS];
};

// to[i] += a thread's rows of sum, for the `count` rows of a tile.  to: its first token
template <int DIM, int R, class G, class A>
__device__ void add_rows(head<G> to, int count, int dim, const A (&sum)[R][tile<A, DIM, R>::COLUMNS])
{
#pragma unroll
    for (int i = 0; i < R; i++) {
        int row = threadIdx.x / SIDE + i * SIDE;
        if (row >= count)
            continue;
#pragma unroll
        for (int c = 0; c < tile<A, DIM, R>::COLUMNS; c++) {
            int d = column_of<A>(c);
            if (d < dim) {
                G &element = to.token(row)[d];
                narrow(element, widen<A>(element) + sum[i][c]);
            }
        }
    }
}

// The same in bf16 with stochastic rounding, through a tile in shared memory that is no longer needed: unrolled,
// the random bits of a thread's elements would make a long kernel. first: group of the row of the head's first
// token; col: the head's first column; row_groups: groups per token.
template <int DIM, int R, class G, class A>
__device__ void add_rows_stochastic(head<G> to, int count, int dim, const A (&sum)[R][tile<A, DIM, R>::COLUMNS],
                                    A *shared, const bf16_rounding &rounding, uint64_t first, unsigned col,
                                    uint64_t row_groups)
{
    using tile = struct tile<A, DIM, R>;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int c = 0; c < tile::COLUMNS; c++)
            shared[(threadIdx.x / SIDE + i * SIDE) * tile::STRIDE + column_of<A>(c)] = sum[i][c];
    __syncthreads();
    for (int i = threadIdx.x; i < count * dim; i += THREADS) {
        int row = i / dim, d = i % dim;
        struct rounding_bits bits =
            rounding_bits(&rounding, first + row * row_groups + (col + d) / KEY_ROUNDING_GROUP);
        G &element = to.token(row)[d];
        narrow(element, stochastic_bf16(widen<A>(element) + shared[row * tile::STRIDE + d], &bits,
                                        (col + d) % KEY_ROUNDING_GROUP));
    }
}

// A block: one tile of the segments' keys, for a key head. With a mask it needs more registers than two blocks per
// multiprocessor allow. The dtype of grad_k and grad_v is tested once per block, at its end; separate kernels would
// double compilation.
template <int DIM, int VALUES, int R, bool MASKED, class T, class A = wide_t<T>>
__global__ void __launch_bounds__(THREADS, MASKED ? 1 : tile<A, DIM, R, VALUES>::blocks(2, 2))
    backward_keys(segment_list segments, const T *grad_o, const T *o, const A *logsumexp, const T *q, const T *k,
                  const T *v, struct attention_shape s, A scale, bool words, bool reverse)
{
    using tile = struct tile<A, DIM, R, VALUES>;
    DYNAMIC_SHARED(shared);
    A *k_tile = (A *)shared, *v_tile = k_tile + tile::SIZE, *q_tile = v_tile + tile::VALUE_SIZE;
    A *grad_o_tile = q_tile + tile::SIZE,
      *p_tile = grad_o_tile + tile::VALUE_SIZE; // P^T, then dS^T: [keys, queries]
    A *delta = p_tile + tile::SCORE_SIZE, *row_logsumexp = delta + tile::ROWS;
    duty mine(segments.at[segments.count - 1].end);
    unsigned index = 0;
    while (mine.tile >= segments.at[index].end)
        index++;
    auto &segment = segments.at[index];
    size_t begin = (mine.tile - (index ? segments.at[index - 1].end : 0)) * (size_t)tile::ROWS; // in the segment
    int count = rows_of<tile::ROWS>(segment.count, begin);
    size_t key = segment.start + begin;
    unsigned key_head = blockIdx.y, sequence = mine.sequence, group = s.heads / s.kv_heads;
    int dim = (int)s.head_dim, values = (int)s.value_dim, x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    load_tile<DIM, R>(k_tile, head<const T>(k, sequence, s.batch, key_head, s.kv_heads, s.head_dim), key, count,
                      dim, A(1), words);
    load_tile<VALUES, R>(v_tile, head<const T>(v, sequence, s.batch, key_head, s.kv_heads, s.value_dim), key, count,
                         values, A(1), words);

    A grad_k[R][DIM / SIDE] = {}, grad_v[R][VALUES / SIDE] = {};
    unsigned seeing = key > s.start ? (key - s.start) / tile::ROWS : 0; // first tile of queries that sees a key
    bool until = MASKED && key >= prefix_of(s, sequence);               // all later queries see a prefix's keys
    size_t queries = until ? queries_until(s, key + count - 1, sequence) : s.queries;
    unsigned end = (queries + tile::ROWS - 1) / tile::ROWS, tiles = end > seeing ? end - seeing : 0;
    unsigned steps = group * tiles;
    for (unsigned n = 0; n < steps; n++) {
        unsigned step = reverse ? steps - 1 - n : n, h = key_head * group + step / tiles;
        size_t first = (seeing + step % tiles) * (size_t)tile::ROWS; // query
        int rows = rows_of<tile::ROWS>(s.queries, first);
        head<const T> o_head(o, sequence, s.batch, h, s.heads, s.value_dim);
        head<const A> logsumexp_head(logsumexp, sequence, s.batch, h, s.heads, 1);
        int reach = reach_of<tile::ROWS>(s.start + first, key);
        A scores[R][R];
        __syncthreads(); // the previous tiles are no longer needed
        load_tile<DIM, R>(q_tile, head<const T>(q, sequence, s.batch, h, s.heads, s.head_dim), first, rows, dim,
                          scale, words);
        load_tile<VALUES, R>(grad_o_tile, head<const T>(grad_o, sequence, s.batch, h, s.heads, s.value_dim), first,
                             rows, values, A(1), words);
        __syncthreads();
        row_statistics<VALUES, R>(delta, row_logsumexp, grad_o_tile, o_head, logsumexp_head, first, rows, values);
        __syncthreads();
        multiply_rows<DIM, R>(scores, k_tile, q_tile, dim);
        cap_scores(scores, (A)s.cap);
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int j = 0; j < R; j++) {
                bool seen = y + i * SIDE <= x + j * SIDE + reach;
                score_at<DIM, R>(p_tile, i, j) = seen ? exp(scores[i][j] - row_logsumexp[x + j * SIDE]) : A(0);
            }
        if (MASKED && key < query_keys(s, first + rows - 1, sequence).own)
            mask_p<DIM, R, true>(p_tile, s, sequence, first, rows, key);
        __syncthreads();
        multiply_add<VALUES, R>(grad_v, p_tile, grad_o_tile);
        multiply_rows<VALUES, R>(scores, v_tile, grad_o_tile, values);
        __syncthreads(); // P is no longer needed
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int j = 0; j < R; j++) { // P stays in shared memory, because registers are few
                A &p = score_at<DIM, R>(p_tile, i, j);
                int row = x + j * SIDE;
                p = score_gradient(p, scores[i][j], row_logsumexp[row], delta[row], (A)s.cap);
            }
        __syncthreads();
        multiply_add<DIM, R>(grad_k, p_tile, q_tile); // q times scale
    }
    auto add = [&](auto type, auto of_keys, void *to, const auto &sum, const bf16_rounding &rounding, A *spent) {
        using G = typename decltype(type)::type;
        constexpr bool OF_KEYS = decltype(of_keys)::value;
        constexpr int COLUMNS = OF_KEYS ? DIM : VALUES;
        size_t begin = key - segment.start; // recomputed, to save registers in the loop
        int count = rows_of<tile::ROWS>(segment.count, begin), width = OF_KEYS ? dim : values;
        head<G> rows((G *)to, sequence, s.batch, key_head, s.kv_heads, width);
        rows.data = rows.token(begin);
        if constexpr (sizeof(G) == 2) {
            if (rounding.stochastic) {
                uint64_t groups = key_rounding_groups(s.kv_heads * width);
                add_rows_stochastic<COLUMNS, R>(rows, count, width, sum, spent, rounding,
                                                ((segments.origin + key) * s.batch + sequence) * groups,
                                                key_head * width, s.batch * groups);
                return;
            }
        }
        add_rows<COLUMNS, R>(rows, count, width, sum);
    };
    if (segments.wide) {
        add(type_of<A>{}, std::true_type{}, segment.grad_k, grad_k, segments.grad_k, k_tile);
        add(type_of<A>{}, std::false_type{}, segment.grad_v, grad_v, segments.grad_v, v_tile);
    } else {
        add(type_of<T>{}, std::true_type{}, segment.grad_k, grad_k, segments.grad_k, k_tile);
        add(type_of<T>{}, std::false_type{}, segment.grad_v, grad_v, segments.grad_v, v_tile);
    }
}

// A block: a tile of queries, from the last on, of a head. Without accumulate grad_q may be grad_o.
template <int DIM, int VALUES, int R, class T, class A = wide_t<T>>
__global__ void __launch_bounds__(THREADS, tile<A, DIM, R, VALUES>::blocks(2, 2))
    backward_queries(T *grad_q, bool accumulate, const T *grad_o, const T *o, const A *logsumexp, const T *q,
                     const T *k, const T *v, struct attention_shape s, A scale, bool words, bool reverse)
{
    using tile = struct tile<A, DIM, R, VALUES>;
    DYNAMIC_SHARED(shared);
    A *q_tile = (A *)shared, *grad_o_tile = q_tile + tile::SIZE, *k_tile = grad_o_tile + tile::VALUE_SIZE;
    A *v_tile = k_tile + tile::SIZE, *p_tile = v_tile + tile::VALUE_SIZE; // P, then dS: [queries, keys]
    A *delta = p_tile + tile::SCORE_SIZE, *row_logsumexp = delta + tile::ROWS;
    unsigned query_tiles = (unsigned)((s.queries + tile::ROWS - 1) / tile::ROWS);
    duty mine(query_tiles);
    unsigned h = blockIdx.y, sequence = mine.sequence, key_head = h / (s.heads / s.kv_heads);
    size_t first = (query_tiles - 1 - mine.tile) * (size_t)tile::ROWS; // query
    int count = rows_of<tile::ROWS>(s.queries, first);
    size_t keys = std::min(s.start + first + count, s.keys);
    head<const T> k_head(k, sequence, s.batch, key_head, s.kv_heads, s.head_dim);
    head<const T> v_head(v, sequence, s.batch, key_head, s.kv_heads, s.value_dim);
    int dim = (int)s.head_dim, values = (int)s.value_dim, x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    load_tile<DIM, R>(q_tile, head<const T>(q, sequence, s.batch, h, s.heads, s.head_dim), first, count, dim, scale,
                      words);
    load_tile<VALUES, R>(grad_o_tile, head<const T>(grad_o, sequence, s.batch, h, s.heads, s.value_dim), first,
                         count, values, A(1), words);
    __syncthreads();
    row_statistics<VALUES, R>(delta, row_logsumexp, grad_o_tile,
                              head<const T>(o, sequence, s.batch, h, s.heads, s.value_dim),
                              head<const A>(logsumexp, sequence, s.batch, h, s.heads, 1), first, count, values);

    A sum[R][tile::COLUMNS] = {};
    key_tiles tiles = key_tiles_of<tile::ROWS>(s, sequence, first, count, keys);
    for (unsigned n = 0; n < tiles.count; n++) {
        unsigned at = reverse ? tiles.count - 1 - n : n;
        size_t key = tiles.number(at) * (size_t)tile::ROWS;
        int reach = reach_of<tile::ROWS>(s.start + first, key), there = rows_of<tile::ROWS>(keys, key);
        A scores[R][R];
        __syncthreads(); // the previous tiles are no longer needed, the statistics are there
        load_tile<DIM, R>(k_tile, k_head, key, there, dim, A(1), words);
        load_tile<VALUES, R>(v_tile, v_head, key, there, values, A(1), words);
        __syncthreads();
        multiply_rows<DIM, R>(scores, q_tile, k_tile, dim);
        cap_scores(scores, (A)s.cap);
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int j = 0; j < R; j++) {
                bool seen = x + j * SIDE <= std::min(y + i * SIDE + reach, there - 1);
                score_at<DIM, R>(p_tile, i, j) = seen ? exp(scores[i][j] - row_logsumexp[y + i * SIDE]) : A(0);
            }
        if (at < tiles.masked)
            mask_p<DIM, R, false>(p_tile, s, sequence, first, count, key);
        multiply_rows<VALUES, R>(scores, grad_o_tile, v_tile, values);
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int j = 0; j < R; j++) {
                A &p = score_at<DIM, R>(p_tile, i, j);
                int row = y + i * SIDE;
                p = score_gradient(p, scores[i][j], row_logsumexp[row], delta[row], (A)s.cap);
            }
        __syncthreads();
        multiply_add<DIM, R>(sum, p_tile, k_tile);
    }
    head<T> to(grad_q, sequence, s.batch, h, s.heads, s.head_dim);
#pragma unroll
    for (int i = 0; i < R; i++) {
        int row = y + i * SIDE;
        if (row >= count)
            continue;
#pragma unroll
        for (int c = 0; c < tile::COLUMNS; c++)
            if (column_of<A>(c) < dim) {
                T &element = to.token(first + row)[column_of<A>(c)];
                narrow(element, accumulate ? widen<A>(element) + scale * sum[i][c] : scale * sum[i][c]);
            }
    }
}

// ---- launchers

// Launches over all segments, SEGMENTS at a time.
template <int DIM, int VALUES, int R, class T, class A = wide_t<T>>
void launch_keys(struct device *device, const struct key_segment *segments, size_t segment_count, bool wide,
                 const T *grad_o, const T *o, const A *logsumexp, const T *q, const T *k, const T *v,
                 struct attention_shape s, size_t sequences, size_t sequence, A scale, bool words)
{
    using tile = struct tile<A, DIM, R, VALUES>;
    for (size_t done = 0; done < segment_count;) {
        segment_list list = {};
        const struct key_rounding *how = &segments[0].rounding;
        list.wide = wide;
        list.origin = how->origin;
        uint64_t groups_k = key_rounding_groups(s.kv_heads * s.head_dim);
        uint64_t groups_v = key_rounding_groups(s.kv_heads * s.value_dim);
        list.grad_k = key_rounding_of(how, how->grad_k, s.start, sequence * groups_k);
        list.grad_v = key_rounding_of(how, how->grad_v, s.start, sequence * groups_v);
        unsigned blocks = 0;
        for (; done < segment_count && list.count < SEGMENTS; done++) {
            const struct key_segment &from = segments[done];
            blocks += (unsigned)ceil_div(from.count, tile::ROWS);
            list.at[list.count++] = {from.start, from.count, from.grad_k.data, from.grad_v.data, blocks};
        }
        launch(attention_is_masked(s) ? backward_keys<DIM, VALUES, R, true, T>
                                      : backward_keys<DIM, VALUES, R, false, T>,
               dim3(blocks * sequences, s.kv_heads), THREADS, tile::bytes(2, 2), device, list, grad_o, o, logsumexp,
               q, k, v, s, scale, words, device->reverse_sums);
    }
}

} // namespace

void attention_own_backward_rows(struct device *device, struct attention_shape shape, size_t stride,
                                 size_t sequence, struct tensor grad_q, bool accumulate,
                                 const struct key_segment *segments, size_t segment_count, struct tensor grad_o,
                                 struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                                 struct tensor v)
{
    enum dtype gradient_dtype = segment_count ? segments[0].grad_k.dtype : q.dtype;
    for (size_t i = 0; i < segment_count; i++)
        CHECK(segments[i].grad_k.dtype == gradient_dtype && segments[i].grad_v.dtype == gradient_dtype &&
              segments[i].rounding.stochastic == segments[0].rounding.stochastic &&
              segments[i].rounding.origin == segments[0].rounding.origin);
    CHECK(gradient_dtype == q.dtype || (gradient_dtype == DTYPE_F32 && q.dtype == DTYPE_BF16));
    bool served = false;
    size_t sequences = shape.batch;
    shape.keys = attention_keys(shape);
    shape.value_dim = attention_value_dim(shape);
    shape.batch = stride;
    with_type(q.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        const T *pgo = (const T *)grad_o.data, *po = (const T *)o.data, *pq = (const T *)q.data;
        const T *pk = (const T *)k.data, *pv = (const T *)v.data;
        const A *pl = (const A *)logsumexp.data;
        A scale = (A)(1 / sqrt((double)shape.head_dim));
        bool words = aligned(LANES<T>, shape.head_dim, q, k) && aligned(LANES<T>, shape.value_dim, grad_o, v);
        served = with_dims(shape, [&](auto dim, auto values) {
            return with_rows<A, dim.value, values.value, 2, 2>(cuda_shared_bytes(device), [&](auto rows) {
                constexpr int DIM = dim.value, VALUES = values.value, R = rows.value;
                using tile = struct tile<A, DIM, R, VALUES>;
                launch_keys<DIM, VALUES, R, T>(device, segments, segment_count, gradient_dtype != q.dtype, pgo, po,
                                               pl, pq, pk, pv, shape, sequences, sequence, scale, words);
                launch(backward_queries<DIM, VALUES, R, T>,
                       dim3(ceil_div(shape.queries, tile::ROWS) * sequences, shape.heads), THREADS,
                       tile::bytes(2, 2), device, (T *)grad_q.data, accumulate, pgo, po, pl, pq, pk, pv, shape,
                       scale, words, device->reverse_sums);
            });
        });
    });
    if (!served)
        refuse(device, shape, "backward");
}

void attention_own_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                            bool accumulate, const struct key_segment *segments, size_t segment_count,
                            struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                            struct tensor k, struct tensor v, struct tensor)
{
    attention_own_backward_rows(device, shape, shape.batch, 0, grad_q, accumulate, segments, segment_count, grad_o,
                                o, logsumexp, q, k, v);
}
