// Attention's forward by our own kernel, tile by tile (Dao 2023, arXiv 2307.08691), for f64, f32 and, where sums
// run in reverse or heads are not cuDNN's, bf16:
//
//   S = q k^T * scale, capped, masked;  P = softmax(S);  o = P v;  logsumexp of the rows of S is kept
#include "kernels/cuda/kernels/attention_tile.cuh"
#include <cfloat>

namespace
{

using namespace attention;

// A block: a tile of queries of a head; the last tile, which sees the most keys, runs first.
template <int DIM, int VALUES, int R, class T, class A = wide_t<T>>
__global__ void __launch_bounds__(THREADS, tile<A, DIM, R>::blocks(2, 0))
    forward(T *o, A *logsumexp, const T *q, const T *k, const T *v, struct attention_shape s, size_t o_stride,
            A scale, bool words, bool reverse)
{
    using tile = struct tile<A, DIM, R>;
    DYNAMIC_SHARED(shared);
    A *q_tile = (A *)shared, *kv_tile = q_tile + tile::SIZE, *p_tile = kv_tile + tile::SIZE;
    unsigned query_tiles = (unsigned)((s.queries + tile::ROWS - 1) / tile::ROWS);
    duty mine(query_tiles);
    unsigned h = blockIdx.y, sequence = mine.sequence, key_head = h / (s.heads / s.kv_heads);
    // 32-bit token indices, and key and value pointers computed at their use: both save registers.
    unsigned first = (query_tiles - 1 - mine.tile) * tile::ROWS; // query
    int count = rows_of<tile::ROWS>(s.queries, first);
    unsigned keys = (unsigned)std::min(s.start + first + count, s.keys);
    head<const T> q_head(q, sequence, s.batch, h, s.heads, s.head_dim);
    int dim = (int)s.head_dim, values = (int)s.value_dim, x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    load_tile<DIM, R>(q_tile, q_head, first, count, dim, scale, words);

    A sum[R][VALUES / SIDE] = {}, largest[R], total[R] = {}; // total: of this thread's columns
#pragma unroll
    for (int i = 0; i < R; i++)
        largest[i] = sizeof(A) == 8 ? (A)-DBL_MAX : (A)-FLT_MAX;
    key_tiles tiles = key_tiles_of<tile::ROWS>(s, sequence, first, count, keys);
    for (unsigned n = 0; n < tiles.count; n++) {
        unsigned at = reverse ? tiles.count - 1 - n : n;
        unsigned key = tiles.number(at) * tile::ROWS;
        int reach = reach_of<tile::ROWS>(s.start + first, key), there = rows_of<tile::ROWS>(keys, key);
        A p[R][R];
        __syncthreads(); // the previous tiles are no longer needed
        load_tile<DIM, R>(kv_tile, head<const T>(k, sequence, s.batch, key_head, s.kv_heads, s.head_dim), key,
                          there, dim, A(1), words);
        __syncthreads();
        multiply_rows<DIM, R>(p, q_tile, kv_tile, dim);
        cap_scores(p, (A)s.cap);
        if (at < tiles.masked)
            mask_scores(p, s, sequence, first, count, key);
#pragma unroll
        for (int i = 0; i < R; i++) {
            int seen = std::min(y + i * SIDE + reach, there - 1); // the last key
            A top = largest[i];
#pragma unroll
            for (int j = 0; j < R; j++)
                if (x + j * SIDE <= seen)
                    top = p[i][j] > top ? p[i][j] : top;
#pragma unroll
            for (int lanes = SIDE / 2; lanes > 0; lanes /= 2) {
                A other = __shfl_xor_sync(0xffffffffu, top, lanes);
                top = other > top ? other : top;
            }
            A shrink = exp(largest[i] - top);
            largest[i] = top;
            total[i] *= shrink;
#pragma unroll
            for (int j = 0; j < R; j++) {
                p[i][j] = x + j * SIDE <= seen ? exp(p[i][j] - top) : A(0);
                total[i] += p[i][j];
                score_at<DIM, R>(p_tile, i, j) = p[i][j];
            }
#pragma unroll
            for (int c = 0; c < VALUES / SIDE; c++)
                sum[i][c] *= shrink;
        }
        __syncthreads(); // k is no longer needed
        load_tile<VALUES, R>(kv_tile, head<const T>(v, sequence, s.batch, key_head, s.kv_heads, s.value_dim), key,
                             there, values, A(1), words);
        __syncthreads();
        multiply_add<VALUES, R>(sum, p_tile, kv_tile);
    }
#pragma unroll
    for (int i = 0; i < R; i++) {
#pragma unroll
        for (int lanes = SIDE / 2; lanes > 0; lanes /= 2)
            total[i] += __shfl_xor_sync(0xffffffffu, total[i], lanes);
        int row = y + i * SIDE;
        if (row >= count)
            continue;
        size_t token = ((size_t)(first + row) * o_stride + sequence) * s.heads + h;
        for (int c = 0; c < VALUES / SIDE; c++)
            if (column_of<A>(c) < values)
                narrow(o[token * s.value_dim + column_of<A>(c)], total[i] == A(0) ? A(0) : sum[i][c] / total[i]);
        if (x == 0)
            logsumexp[token] = largest[i] + log(total[i]);
    }
}

} // namespace

void attention_own_forward_rows(struct device *device, struct attention_shape shape, size_t stride, size_t o_stride,
                                struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                                struct tensor v)
{
    bool served = false;
    size_t sequences = shape.batch;
    shape.keys = attention_keys(shape);
    shape.value_dim = attention_value_dim(shape);
    shape.batch = stride;
    with_type(q.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        bool words = aligned(LANES<T>, shape.head_dim, q, k) && aligned(LANES<T>, shape.value_dim, v);
        served = with_dims(shape, [&](auto dim, auto values) {
            return with_rows<A, dim.value, values.value, 2, 0>(cuda_shared_bytes(device), [&](auto rows) {
                using tile = struct tile<A, dim.value, rows.value>;
                launch(forward<dim.value, values.value, rows.value, T>,
                       dim3(ceil_div(shape.queries, tile::ROWS) * sequences, shape.heads), THREADS,
                       tile::bytes(2, 0), device, (T *)o.data, (A *)logsumexp.data, (const T *)q.data,
                       (const T *)k.data, (const T *)v.data, shape, o_stride, 1 / sqrt((double)shape.head_dim),
                       words, device->reverse_sums);
            });
        });
    });
    if (!served)
        refuse(device, shape, "forward");
}

void attention_own_forward(struct device *device, struct attention_shape shape, struct tensor o,
                           struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    attention_own_forward_rows(device, shape, shape.batch, shape.batch, o, logsumexp, q, k, v);
}
