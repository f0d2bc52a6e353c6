// Attention by our own kernels, tile by tile (Dao 2023, arXiv 2307.08691), for f64, f32 and, in a fixed order,
// bf16:
//
//   forward:   S = q k^T * scale, causal;  P = softmax(S);  o = P v;  logsumexp of the rows of S is kept
//   backward:  P = exp(S - logsumexp), delta = rowsum(grad_o * o), dS = P * (grad_o v^T - delta)
//              grad_q = dS k * scale;  grad_k += dS^T q * scale;  grad_v += P^T grad_o
//
// The backward is two kernels, each of which rebuilds P: one block per tile of keys walks the queries that see it
// and holds grad_k, grad_v in registers; then one block per tile of queries walks its keys and holds grad_q. No
// block waits for another, no sum depends on their order, and nothing of queries x keys stands in memory. Keys
// first: grad_q may be grad_o, and a block of queries reads no rows of grad_o but those it replaces.
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include <cfloat>

namespace
{

constexpr int SIDE = 16, THREADS = SIDE * SIDE; // thread (x, y) of a block

// Tiles in shared memory: [ROWS, DIM] of q, k, v, grad_o, 32 KiB each, and [ROWS, ROWS] of P or dS. Rows are apart
// by one 16-byte word more than they hold, so that 16 lanes reading a column of words fall into different banks.
// A thread holds rows y, y + SIDE, ... of a product; of [ROWS, ROWS] columns x, x + SIDE, ...; of [ROWS, DIM] the
// columns of words x, x + SIDE, ....
template <class A, int DIM> struct tile {
    static constexpr int WORD = LANES<A>;
    static constexpr int FIT = 32768 / (DIM * (int)sizeof(A)) / SIDE;
    static constexpr int R = FIT < WORD ? FIT : WORD; // rows per thread
    static constexpr int ROWS = SIDE * R;             // of queries and of keys
    static constexpr int COLUMNS = DIM / SIDE;        // of [ROWS, DIM] per thread
    static constexpr int STRIDE = DIM + WORD;         // [ROWS, DIM]
    static constexpr int SCORE_STRIDE = ROWS + WORD;  // [ROWS, ROWS]
    static constexpr int SIZE = ROWS * STRIDE;        // elements
    static constexpr int SCORE_SIZE = ROWS * SCORE_STRIDE;
    // Shared memory of a block with so many tiles, one of scores, and two numbers per row.
    static constexpr size_t bytes(int tiles) { return (tiles * SIZE + SCORE_SIZE + 2 * ROWS) * sizeof(A); }
    // Blocks that share an SM of sm_90: registers are bounded where two find room.
    static constexpr int blocks(int tiles) { return 2 * bytes(tiles) <= (226 << 10) ? 2 : 1; }
    static_assert(DIM % (SIDE * WORD) == 0 && R > 0, "threads share a tile's rows and words evenly");
};

// One head of one sequence in a tensor [tokens * batch, heads * dim].
template <class T> struct head {
    T *data;
    size_t stride; // elements from one token to the next
    __device__ head(T *tensor, size_t sequence, size_t batch, size_t index, size_t heads, size_t dim)
        : data(tensor + (sequence * heads + index) * dim), stride(batch * heads * dim)
    {
    }
    __device__ T *token(size_t t) const { return data + t * stride; }
};

// to[i, d] = factor * token first + i; 0 from row `count` and column `dim` on.
template <int DIM, int N, class A, class T>
__device__ void load_tile(A *to, head<const T> from, size_t first, size_t count, int dim, A factor)
{
    using tile = struct tile<A, DIM>;
    for (int i = threadIdx.x; i < tile::ROWS * (DIM / N); i += THREADS) {
        int row = i / (DIM / N), d = i % (DIM / N) * N;
        A x[N];
        read(x, from.token(first + row) + d, (size_t)row < count && d < dim ? N : 0);
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] *= factor;
        write(to + row * tile::STRIDE + d, x);
    }
}

// s = a b^T.  a, b: [ROWS, DIM], zero from column dim on
template <int DIM, class A>
__device__ void multiply_rows(A (&s)[tile<A, DIM>::R][tile<A, DIM>::R], const A *a, const A *b, int dim)
{
    using tile = struct tile<A, DIM>;
    using word = pack<A, tile::WORD>;
    int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll
    for (int i = 0; i < tile::R; i++)
#pragma unroll
        for (int j = 0; j < tile::R; j++)
            s[i][j] = 0;
#pragma unroll 2
    for (int d = 0; d < dim; d += tile::WORD) {
        word left[tile::R], right[tile::R];
#pragma unroll
        for (int i = 0; i < tile::R; i++) {
            left[i] = *(const word *)(a + (y + i * SIDE) * tile::STRIDE + d);
            right[i] = *(const word *)(b + (x + i * SIDE) * tile::STRIDE + d);
        }
#pragma unroll
        for (int w = 0; w < tile::WORD; w++)
#pragma unroll
            for (int i = 0; i < tile::R; i++)
#pragma unroll
                for (int j = 0; j < tile::R; j++)
                    s[i][j] += left[i].at[w] * right[j].at[w];
    }
}

// sum += p b.  p: [ROWS, ROWS], b: [ROWS, DIM]
template <int DIM, class A>
__device__ void multiply_add(A (&sum)[tile<A, DIM>::R][tile<A, DIM>::COLUMNS], const A *p, const A *b)
{
    using tile = struct tile<A, DIM>;
    using word = pack<A, tile::WORD>;
    constexpr int WORD = tile::WORD;
    int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll 1
    for (int k = 0; k < tile::ROWS; k += WORD) {
        word left[tile::R];
#pragma unroll
        for (int i = 0; i < tile::R; i++)
            left[i] = *(const word *)(p + (y + i * SIDE) * tile::SCORE_STRIDE + k);
#pragma unroll
        for (int w = 0; w < WORD; w++)
#pragma unroll
            for (int c = 0; c < tile::COLUMNS; c += WORD) {
                word right = *(const word *)(b + (k + w) * tile::STRIDE + c * SIDE + x * WORD);
#pragma unroll
                for (int i = 0; i < tile::R; i++)
#pragma unroll
                    for (int j = 0; j < WORD; j++)
                        sum[i][c + j] += left[i].at[w] * right.at[j];
            }
    }
}

// p = s, a thread's part of [ROWS, ROWS].
template <int DIM, class A> __device__ void store_scores(A *p, const A (&s)[tile<A, DIM>::R][tile<A, DIM>::R])
{
    using tile = struct tile<A, DIM>;
    int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll
    for (int i = 0; i < tile::R; i++)
#pragma unroll
        for (int j = 0; j < tile::R; j++)
            p[(y + i * SIDE) * tile::SCORE_STRIDE + x + j * SIDE] = s[i][j];
}

// The column that element c of a thread's part of [ROWS, DIM] stands in.
template <class A> __device__ int column_of(int c)
{
    constexpr int WORD = LANES<A>;
    return c / WORD * WORD * SIDE + threadIdx.x % SIDE * WORD + c % WORD;
}

// ---- forward

// Block (x, y, z): query tile x from the last, which sees the most keys, head y, sequence z.
template <int DIM, int N, class T, class A = wide_t<T>>
__global__ void __launch_bounds__(THREADS, tile<A, DIM>::blocks(2))
    forward(T *o, A *logsumexp, const T *q, const T *k, const T *v, struct attention_shape s, A scale, bool reverse)
{
    using tile = struct tile<A, DIM>;
    DYNAMIC_SHARED(shared);
    A *q_tile = (A *)shared, *kv_tile = q_tile + tile::SIZE, *p_tile = kv_tile + tile::SIZE;
    size_t h = blockIdx.y, sequence = blockIdx.z, key_head = h / (s.heads / s.kv_heads);
    size_t first = (gridDim.x - 1 - blockIdx.x) * (size_t)tile::ROWS; // query
    size_t count = s.queries - first < tile::ROWS ? s.queries - first : tile::ROWS;
    size_t keys = s.start + first + count;
    head<const T> k_head(k, sequence, s.batch, key_head, s.kv_heads, s.head_dim);
    head<const T> v_head(v, sequence, s.batch, key_head, s.kv_heads, s.head_dim);
    head<const T> q_head(q, sequence, s.batch, h, s.heads, s.head_dim);
    int dim = (int)s.head_dim, x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    load_tile<DIM, N>(q_tile, q_head, first, count, dim, scale);

    A sum[tile::R][tile::COLUMNS] = {}, largest[tile::R], total[tile::R] = {}; // total: of this thread's columns
#pragma unroll
    for (int i = 0; i < tile::R; i++)
        largest[i] = sizeof(A) == 8 ? (A)-DBL_MAX : (A)-FLT_MAX;
    size_t tiles = (keys + tile::ROWS - 1) / tile::ROWS;
    for (size_t n = 0; n < tiles; n++) {
        size_t key = (reverse ? tiles - 1 - n : n) * tile::ROWS;
        A p[tile::R][tile::R];
        __syncthreads(); // the tiles before are spent
        load_tile<DIM, N>(kv_tile, k_head, key, keys - key, dim, A(1));
        __syncthreads();
        multiply_rows<DIM>(p, q_tile, kv_tile, dim);
#pragma unroll
        for (int i = 0; i < tile::R; i++) {
            size_t seen = s.start + first + y + i * SIDE + 1; // keys
            A top = largest[i];
#pragma unroll
            for (int j = 0; j < tile::R; j++)
                if (key + x + j * SIDE < seen)
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
            for (int j = 0; j < tile::R; j++) {
                p[i][j] = key + x + j * SIDE < seen ? exp(p[i][j] - top) : A(0);
                total[i] += p[i][j];
            }
#pragma unroll
            for (int c = 0; c < tile::COLUMNS; c++)
                sum[i][c] *= shrink;
        }
        store_scores<DIM>(p_tile, p);
        __syncthreads(); // k is spent
        load_tile<DIM, N>(kv_tile, v_head, key, keys - key, dim, A(1));
        __syncthreads();
        multiply_add<DIM>(sum, p_tile, kv_tile);
    }
#pragma unroll
    for (int i = 0; i < tile::R; i++) {
#pragma unroll
        for (int lanes = SIDE / 2; lanes > 0; lanes /= 2)
            total[i] += __shfl_xor_sync(0xffffffffu, total[i], lanes);
        size_t row = y + i * SIDE;
        if (row >= count)
            continue;
        size_t token = ((first + row) * s.batch + sequence) * s.heads + h;
        for (int c = 0; c < tile::COLUMNS; c++)
            if (column_of<A>(c) < dim)
                narrow(o[token * s.head_dim + column_of<A>(c)], sum[i][c] / total[i]);
        if (x == 0)
            logsumexp[token] = largest[i] + log(total[i]);
    }
}

// ---- backward

// delta and logsumexp of the rows of a tile of queries; 0 from row `count` on, where grad_o's tile is 0 too.
template <int DIM, class T, class A>
__device__ void row_statistics(A *delta, A *row_logsumexp, const A *grad_o_tile, head<const T> o,
                               head<const A> logsumexp, size_t first, size_t count, int dim)
{
    using tile = struct tile<A, DIM>;
    int lane = threadIdx.x % 32;
    for (int row = threadIdx.x / 32; row < tile::ROWS; row += THREADS / 32) {
        A sum = 0;
        if ((size_t)row < count)
            for (int d = lane; d < dim; d += 32)
                sum += grad_o_tile[row * tile::STRIDE + d] * widen<A>(o.token(first + row)[d]);
        sum = warp_sum(sum);
        if (lane == 0) {
            delta[row] = sum;
            row_logsumexp[row] = (size_t)row < count ? *logsumexp.token(first + row) : A(0);
        }
    }
}

// Some of the key segments, as many as one launch takes; a block of keys belongs to one of them.
constexpr int SEGMENTS = 32;
template <class G> struct segment_list {
    int count;
    struct {
        size_t start, count;
        G *grad_k, *grad_v;
        unsigned end; // of its blocks
    } at[SEGMENTS];
};

// Block (x, y, z): key tile x of the segments, key head y, sequence z. G: of grad_k and grad_v.
template <int DIM, int N, class G, class T, class A = wide_t<T>>
__global__ void __launch_bounds__(THREADS, tile<A, DIM>::blocks(4))
    backward_keys(segment_list<G> segments, const T *grad_o, const T *o, const A *logsumexp, const T *q, const T *k,
                  const T *v, struct attention_shape s, A scale, bool reverse)
{
    using tile = struct tile<A, DIM>;
    DYNAMIC_SHARED(shared);
    A *k_tile = (A *)shared, *v_tile = k_tile + tile::SIZE, *q_tile = v_tile + tile::SIZE;
    A *grad_o_tile = q_tile + tile::SIZE, *p_tile = grad_o_tile + tile::SIZE; // P^T, then dS^T: [keys, queries]
    A *delta = p_tile + tile::SCORE_SIZE, *row_logsumexp = delta + tile::ROWS;
    int index = 0;
    while (blockIdx.x >= segments.at[index].end)
        index++;
    auto &segment = segments.at[index];
    size_t begin = (blockIdx.x - (index ? segments.at[index - 1].end : 0)) * (size_t)tile::ROWS; // in the segment
    size_t count = segment.count - begin < tile::ROWS ? segment.count - begin : tile::ROWS;
    size_t key = segment.start + begin, key_head = blockIdx.y, sequence = blockIdx.z, group = s.heads / s.kv_heads;
    int dim = (int)s.head_dim, x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    load_tile<DIM, N>(k_tile, head<const T>(k, sequence, s.batch, key_head, s.kv_heads, s.head_dim), key, count,
                      dim, A(1));
    load_tile<DIM, N>(v_tile, head<const T>(v, sequence, s.batch, key_head, s.kv_heads, s.head_dim), key, count,
                      dim, A(1));

    A grad_k[tile::R][tile::COLUMNS] = {}, grad_v[tile::R][tile::COLUMNS] = {};
    size_t seeing = key > s.start ? (key - s.start) / tile::ROWS : 0; // first tile of queries that sees a key
    size_t tiles = (s.queries + tile::ROWS - 1) / tile::ROWS - seeing;
    for (size_t n = 0; n < group * tiles; n++) {
        size_t step = reverse ? group * tiles - 1 - n : n, h = key_head * group + step / tiles;
        size_t first = (seeing + step % tiles) * tile::ROWS; // query
        size_t rows = s.queries - first < tile::ROWS ? s.queries - first : tile::ROWS;
        head<const T> o_head(o, sequence, s.batch, h, s.heads, s.head_dim);
        head<const A> logsumexp_head(logsumexp, sequence, s.batch, h, s.heads, 1);
        A p[tile::R][tile::R], ds[tile::R][tile::R];
        __syncthreads(); // the tiles before are spent
        load_tile<DIM, N>(q_tile, head<const T>(q, sequence, s.batch, h, s.heads, s.head_dim), first, rows, dim,
                          scale);
        load_tile<DIM, N>(grad_o_tile, head<const T>(grad_o, sequence, s.batch, h, s.heads, s.head_dim), first,
                          rows, dim, A(1));
        __syncthreads();
        row_statistics<DIM>(delta, row_logsumexp, grad_o_tile, o_head, logsumexp_head, first, rows, dim);
        __syncthreads();
        multiply_rows<DIM>(p, k_tile, q_tile, dim);
        multiply_rows<DIM>(ds, v_tile, grad_o_tile, dim);
#pragma unroll
        for (int j = 0; j < tile::R; j++) {
            size_t position = s.start + first + x + j * SIDE;
#pragma unroll
            for (int i = 0; i < tile::R; i++) {
                bool seen = key + y + i * SIDE <= position;
                p[i][j] = seen ? exp(p[i][j] - row_logsumexp[x + j * SIDE]) : A(0);
                ds[i][j] = p[i][j] * (ds[i][j] - delta[x + j * SIDE]);
            }
        }
        store_scores<DIM>(p_tile, p);
        __syncthreads();
        multiply_add<DIM>(grad_v, p_tile, grad_o_tile);
        __syncthreads(); // P is spent
        store_scores<DIM>(p_tile, ds);
        __syncthreads();
        multiply_add<DIM>(grad_k, p_tile, q_tile); // q times scale
    }
    head<G> to_k(segment.grad_k, sequence, s.batch, key_head, s.kv_heads, s.head_dim);
    head<G> to_v(segment.grad_v, sequence, s.batch, key_head, s.kv_heads, s.head_dim);
#pragma unroll
    for (int i = 0; i < tile::R; i++) {
        size_t row = y + i * SIDE;
        if (row >= count)
            continue;
#pragma unroll
        for (int c = 0; c < tile::COLUMNS; c++) {
            int d = column_of<A>(c);
            if (d < dim) {
                G &gk = to_k.token(begin + row)[d], &gv = to_v.token(begin + row)[d];
                narrow(gk, widen<A>(gk) + grad_k[i][c]);
                narrow(gv, widen<A>(gv) + grad_v[i][c]);
            }
        }
    }
}

// Block (x, y, z): query tile x from the last, head y, sequence z. grad_q may be grad_o.
template <int DIM, int N, class T, class A = wide_t<T>>
__global__ void __launch_bounds__(THREADS, tile<A, DIM>::blocks(4))
    backward_queries(T *grad_q, const T *grad_o, const T *o, const A *logsumexp, const T *q, const T *k, const T *v,
                     struct attention_shape s, A scale, bool reverse)
{
    using tile = struct tile<A, DIM>;
    DYNAMIC_SHARED(shared);
    A *q_tile = (A *)shared, *grad_o_tile = q_tile + tile::SIZE, *k_tile = grad_o_tile + tile::SIZE;
    A *v_tile = k_tile + tile::SIZE, *ds_tile = v_tile + tile::SIZE;
    A *delta = ds_tile + tile::SCORE_SIZE, *row_logsumexp = delta + tile::ROWS;
    size_t h = blockIdx.y, sequence = blockIdx.z, key_head = h / (s.heads / s.kv_heads);
    size_t first = (gridDim.x - 1 - blockIdx.x) * (size_t)tile::ROWS; // query
    size_t count = s.queries - first < tile::ROWS ? s.queries - first : tile::ROWS;
    size_t keys = s.start + first + count;
    head<const T> k_head(k, sequence, s.batch, key_head, s.kv_heads, s.head_dim);
    head<const T> v_head(v, sequence, s.batch, key_head, s.kv_heads, s.head_dim);
    int dim = (int)s.head_dim, x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    load_tile<DIM, N>(q_tile, head<const T>(q, sequence, s.batch, h, s.heads, s.head_dim), first, count, dim,
                      scale);
    load_tile<DIM, N>(grad_o_tile, head<const T>(grad_o, sequence, s.batch, h, s.heads, s.head_dim), first, count,
                      dim, A(1));
    __syncthreads();
    row_statistics<DIM>(delta, row_logsumexp, grad_o_tile,
                        head<const T>(o, sequence, s.batch, h, s.heads, s.head_dim),
                        head<const A>(logsumexp, sequence, s.batch, h, s.heads, 1), first, count, dim);

    A sum[tile::R][tile::COLUMNS] = {};
    size_t tiles = (keys + tile::ROWS - 1) / tile::ROWS;
    for (size_t n = 0; n < tiles; n++) {
        size_t key = (reverse ? tiles - 1 - n : n) * tile::ROWS;
        A p[tile::R][tile::R], ds[tile::R][tile::R];
        __syncthreads(); // the tiles before are spent, the statistics there
        load_tile<DIM, N>(k_tile, k_head, key, keys - key, dim, A(1));
        load_tile<DIM, N>(v_tile, v_head, key, keys - key, dim, A(1));
        __syncthreads();
        multiply_rows<DIM>(p, q_tile, k_tile, dim);
        multiply_rows<DIM>(ds, grad_o_tile, v_tile, dim);
#pragma unroll
        for (int i = 0; i < tile::R; i++) {
            size_t position = s.start + first + y + i * SIDE;
#pragma unroll
            for (int j = 0; j < tile::R; j++) {
                bool seen = key + x + j * SIDE <= position;
                p[i][j] = seen ? exp(p[i][j] - row_logsumexp[y + i * SIDE]) : A(0);
                ds[i][j] = p[i][j] * (ds[i][j] - delta[y + i * SIDE]);
            }
        }
        store_scores<DIM>(ds_tile, ds);
        __syncthreads();
        multiply_add<DIM>(sum, ds_tile, k_tile);
    }
    head<T> to(grad_q, sequence, s.batch, h, s.heads, s.head_dim);
#pragma unroll
    for (int i = 0; i < tile::R; i++) {
        size_t row = y + i * SIDE;
        if (row >= count)
            continue;
#pragma unroll
        for (int c = 0; c < tile::COLUMNS; c++)
            if (column_of<A>(c) < dim)
                narrow(to.token(first + row)[column_of<A>(c)], scale * sum[i][c]);
    }
}

// ---- launchers

// body(DIM, N) as constants: the tile's columns, and elements per access.
template <class T, class Body> void with_dim(size_t head_dim, bool vector, Body body)
{
    auto with_elements = [&](auto dim) {
        if (vector)
            body(dim, std::integral_constant<int, LANES<T>>{});
        else
            body(dim, std::integral_constant<int, 1>{});
    };
    CHECK(head_dim > 0 && head_dim <= CUDA_ATTENTION_HEAD_DIM);
    if (head_dim <= 64)
        with_elements(std::integral_constant<int, 64>{});
    else if (head_dim <= 128)
        with_elements(std::integral_constant<int, 128>{});
    else
        with_elements(std::integral_constant<int, CUDA_ATTENTION_HEAD_DIM>{});
}

// Launches over all segments, SEGMENTS at a time.
template <int DIM, int N, class G, class T, class A = wide_t<T>>
void launch_keys(const struct key_segment *segments, size_t segment_count, const T *grad_o, const T *o,
                 const A *logsumexp, const T *q, const T *k, const T *v, struct attention_shape s, A scale,
                 bool reverse, cudaStream_t stream)
{
    constexpr int ROWS = tile<A, DIM>::ROWS;
    for (size_t done = 0; done < segment_count;) {
        segment_list<G> list = {};
        unsigned blocks = 0;
        for (; done < segment_count && list.count < SEGMENTS; done++) {
            const struct key_segment &from = segments[done];
            blocks += (unsigned)ceil_div(from.count, ROWS);
            list.at[list.count++] = {from.start, from.count, (G *)from.grad_k.data, (G *)from.grad_v.data, blocks};
        }
        launch(backward_keys<DIM, N, G, T>, dim3(blocks, s.kv_heads, s.batch), THREADS, tile<A, DIM>::bytes(4),
               stream, list, grad_o, o, logsumexp, q, k, v, s, scale, reverse);
    }
}

} // namespace

void cuda_attention_forward(struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                            struct tensor v, struct attention_shape shape, bool reverse, cudaStream_t stream)
{
    with_type(q.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        with_dim<T>(shape.head_dim, aligned(LANES<T>, shape.head_dim, q, k, v), [&](auto dim, auto elements) {
            constexpr int DIM = dim.value, N = elements.value;
            launch(forward<DIM, N, T>, dim3(ceil_div(shape.queries, tile<A, DIM>::ROWS), shape.heads, shape.batch),
                   THREADS, tile<A, DIM>::bytes(2), stream, (T *)o.data, (A *)logsumexp.data, (const T *)q.data,
                   (const T *)k.data, (const T *)v.data, shape, 1 / sqrt((double)shape.head_dim), reverse);
        });
    });
}

void cuda_attention_backward(struct tensor grad_q, const struct key_segment *segments, size_t segment_count,
                             struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                             struct tensor k, struct tensor v, struct attention_shape shape, bool reverse,
                             cudaStream_t stream)
{
    enum dtype gradient_dtype = segment_count ? segments[0].grad_k.dtype : q.dtype;
    for (size_t i = 0; i < segment_count; i++)
        CHECK(segments[i].grad_k.dtype == gradient_dtype && segments[i].grad_v.dtype == gradient_dtype);
    with_type(q.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        const T *pgo = (const T *)grad_o.data, *po = (const T *)o.data, *pq = (const T *)q.data;
        const T *pk = (const T *)k.data, *pv = (const T *)v.data;
        const A *pl = (const A *)logsumexp.data;
        A scale = (A)(1 / sqrt((double)shape.head_dim));
        bool vector = aligned(LANES<T>, shape.head_dim, grad_o, q, k, v);
        with_dim<T>(shape.head_dim, vector, [&](auto dim, auto elements) {
            constexpr int DIM = dim.value, N = elements.value;
            with_accumulator<T>(gradient_dtype, q.dtype, [&](auto gradient_type) {
                using G = typename decltype(gradient_type)::type;
                launch_keys<DIM, N, G, T>(segments, segment_count, pgo, po, pl, pq, pk, pv, shape, scale, reverse,
                                          stream);
            });
            launch(backward_queries<DIM, N, T>,
                   dim3(ceil_div(shape.queries, tile<A, DIM>::ROWS), shape.heads, shape.batch), THREADS,
                   tile<A, DIM>::bytes(4), stream, (T *)grad_q.data, pgo, po, pl, pq, pk, pv, shape, scale,
                   reverse);
        });
    });
}
