// Attention tile: code shared by attention's own kernels: tiles of q, k, v and grad_o in shared memory, and
// products of two tiles.
#pragma once
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/workspace.h"
#include <algorithm>
#include <type_traits>

namespace attention
{

constexpr int SIDE = 16, THREADS = SIDE * SIDE; // thread (x, y) of a block

// Shared memory available to a block on every card from compute capability 8.0 on: 99 KiB on 8.6, 8.9 and 12.x, 163
// on 8.0 and 8.7, 227 on 9.0 and 10.x.
constexpr size_t MIN_SHARED_BYTES = 99 << 10;
// Maximum rows of a tile per thread: at most 32 KiB per tile and as many as a word has numbers, to bound a
// product's registers.
#ifndef CUDA_ATTENTION_ROWS
#define CUDA_ATTENTION_ROWS LANES<A>
#endif
template <class A, int DIM>
constexpr int MAX_ROWS = std::min(32768 / (DIM * (int)sizeof(A)) / SIDE, CUDA_ATTENTION_ROWS);

// Tiles in shared memory: [ROWS, DIM] of q and k, [ROWS, VALUES] of v and grad_o, and [ROWS, ROWS] of P or dS. Rows
// are padded by one 16-byte word, so that 16 lanes reading a column of words use different banks. A thread holds R
// rows, y, y + SIDE,
// ..., of a product; columns x, x + SIDE, ... of [ROWS, ROWS]; and columns of words x, x + SIDE, ... of [ROWS,
// DIM].
template <class A, int DIM, int R, int VALUES = DIM> struct tile {
    static constexpr int WORD = LANES<A>;
    static constexpr int ROWS = SIDE * R;            // of queries and of keys
    static constexpr int COLUMNS = DIM / SIDE;       // of [ROWS, DIM] per thread
    static constexpr int STRIDE = DIM + WORD;        // [ROWS, DIM]
    static constexpr int SCORE_STRIDE = ROWS + WORD; // [ROWS, ROWS]
    static constexpr int SIZE = ROWS * STRIDE;       // elements
    static constexpr int SCORE_SIZE = ROWS * SCORE_STRIDE;
    static constexpr int VALUE_SIZE = ROWS * (VALUES + WORD);
    // Shared memory of a block with this many tiles of each width, one of scores, and two numbers per row.
    static constexpr size_t bytes(int of_keys, int of_values)
    {
        return (of_keys * SIZE + of_values * VALUE_SIZE + SCORE_SIZE + 2 * ROWS) * sizeof(A);
    }
    // Blocks per multiprocessor: registers are limited if two fit on sm_90. Smaller tiles are for cards where one
    // fits.
    static constexpr int blocks(int of_keys, int of_values)
    {
        return R == MAX_ROWS<A, DIM> && 2 * bytes(of_keys, of_values) <= (226 << 10) ? 2 : 1;
    }
    static_assert(DIM % (SIDE * WORD) == 0 && R > 0, "threads share a tile's rows and words evenly");
    static_assert(VALUES <= DIM, "a tile of keys holds one of values");
};

// Calls body(R) with the maximum rows per thread for which a block with this many tiles of each width fits the
// card's shared memory: sums have one order per card. Returns false without a call if none fits.
template <class A, int DIM, int VALUES, int OF_KEYS, int OF_VALUES, int R = MAX_ROWS<A, DIM>, class Body>
bool with_rows(size_t shared_bytes, Body body)
{
    constexpr size_t bytes = tile<A, DIM, R, VALUES>::bytes(OF_KEYS, OF_VALUES);
    if (bytes <= shared_bytes) {
        body(std::integral_constant<int, R>{});
        return true;
    }
    if constexpr (R > 1 && bytes > MIN_SHARED_BYTES)
        return with_rows<A, DIM, VALUES, OF_KEYS, OF_VALUES, R / 2>(shared_bytes, body);
    return false;
}

template <int DIM> using dim_of = std::integral_constant<int, DIM>;

// Calls body(DIM, VALUES) with the columns of tiles of keys and of values as constants. Returns false without a
// call if no tile holds such heads.
template <class Body> bool with_dims(struct attention_shape shape, Body body)
{
    size_t values = attention_value_dim(shape), longer = std::max(shape.head_dim, values);
    CHECK(shape.head_dim > 0 && longer <= CUDA_HEAD_MAX);
    if (longer <= 64)
        return body(dim_of<64>{}, dim_of<64>{});
    if (longer <= 128)
        return body(dim_of<128>{}, dim_of<128>{});
    if (longer <= 192 && values <= 128) // latent attention's (DeepSeek-V2, arXiv 2405.04434)
        return body(dim_of<192>{}, dim_of<128>{});
    return body(dim_of<CUDA_HEAD_MAX>{}, dim_of<CUDA_HEAD_MAX>{});
}

// Sets a status that says why heads of this length have no tile.
inline void refuse(struct device *device, struct attention_shape shape, const char *direction)
{
    status_set(&device->status, STATUS_UNSUPPORTED,
               "attention's %s on device cuda has no tile for heads of %zu numbers in %s: a block of this card "
               "has %zu KiB of shared memory; in f32 and bf16 a tile takes half",
               direction, shape.head_dim, dtype_name(device->ops->dtype), cuda_shared_bytes(device) >> 10);
}

// The work of a block: in grid (x, y), tile x over all sequences and head y. Sequences are not z, which is limited
// to 65,535.
struct duty {
    unsigned tile, sequence;
    __device__ explicit duty(unsigned tiles) : tile(blockIdx.x % tiles), sequence(blockIdx.x / tiles) {}
};

// One head of one sequence in a tensor [tokens * batch, heads * dim].
template <class T> struct head {
    T *data;
    size_t stride; // elements from one token to the next
    __device__ head(T *tensor, unsigned sequence, size_t batch, unsigned index, unsigned heads, size_t dim)
        : data(tensor + (sequence * heads + index) * dim), stride(batch * heads * dim)
    {
    }
    __device__ T *token(size_t t) const { return data + t * stride; }
};

// to[i, d] = factor * token first + i; 0 from row `count` and column `dim` on. words: rows are aligned for 16-byte
// reads.
template <int DIM, int R, class A, class T>
__device__ void load_tile(A *to, head<const T> from, size_t first, int count, int dim, A factor, bool words)
{
    using tile = struct tile<A, DIM, R>;
    constexpr int N = LANES<T>;
    for (int i = threadIdx.x; i < tile::ROWS * (DIM / N); i += THREADS) {
        int row = i / (DIM / N), d = i % (DIM / N) * N;
        const T *at = from.token(first + row) + d;
        bool inside = row < count && d < dim;
        A x[N];
        if (words) {
            read(x, at, inside ? N : 0);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++)
                x[j] = inside && d + j < dim ? widen<A>(at[j]) : A(0);
        }
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] *= factor;
        write(to + row * tile::STRIDE + d, x);
    }
}

// s = a b^T.  a, b: [ROWS, DIM], zero from column dim on
template <int DIM, int R, class A> __device__ void multiply_rows(A (&s)[R][R], const A *a, const A *b, int dim)
{
    using tile = struct tile<A, DIM, R>;
    using word = pack<A, tile::WORD>;
    int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < R; j++)
            s[i][j] = 0;
#pragma unroll 2
    for (int d = 0; d < dim; d += tile::WORD) {
        word left[R], right[R];
#pragma unroll
        for (int i = 0; i < R; i++) {
            left[i] = *(const word *)(a + (y + i * SIDE) * tile::STRIDE + d);
            right[i] = *(const word *)(b + (x + i * SIDE) * tile::STRIDE + d);
        }
#pragma unroll
        for (int w = 0; w < tile::WORD; w++)
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < R; j++)
                    s[i][j] += left[i].at[w] * right[j].at[w];
    }
}

// sum += p b.  p: [ROWS, ROWS], b: [ROWS, DIM]; a thread has tile::COLUMNS columns of sum, which clang 14 cannot
// parse there.
template <int DIM, int R, class A> __device__ void multiply_add(A (&sum)[R][DIM / SIDE], const A *p, const A *b)
{
    using tile = struct tile<A, DIM, R>;
    using word = pack<A, tile::WORD>;
    constexpr int WORD = tile::WORD;
    int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll 1
    for (int k = 0; k < tile::ROWS; k += WORD) {
        word left[R];
#pragma unroll
        for (int i = 0; i < R; i++)
            left[i] = *(const word *)(p + (y + i * SIDE) * tile::SCORE_STRIDE + k);
#pragma unroll
        for (int w = 0; w < WORD; w++)
#pragma unroll
            for (int c = 0; c < tile::COLUMNS; c += WORD) {
                word right = *(const word *)(b + (k + w) * tile::STRIDE + c * SIDE + x * WORD);
#pragma unroll
                for (int i = 0; i < R; i++)
#pragma unroll
                    for (int j = 0; j < WORD; j++)
                        sum[i][c + j] += left[i].at[w] * right.at[j];
            }
    }
}

// Element (i, j) of a thread's part of [ROWS, ROWS].
template <int DIM, int R, class A> __device__ A &score_at(A *p, int i, int j)
{
    int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    return p[(y + i * SIDE) * tile<A, DIM, R>::SCORE_STRIDE + x + j * SIDE];
}

// Rows of the tile that begins at row `first` of `rows`.
template <int ROWS> __device__ int rows_of(size_t rows, size_t first)
{
    return rows - first < ROWS ? (int)(rows - first) : ROWS;
}

// Visibility between two tiles: query i of the tile at position `query` sees key j of the tile at `key`, which one
// of its queries sees, if j <= i + reach.
template <int ROWS> __device__ int reach_of(size_t query, size_t key)
{
    return query < key + ROWS ? (int)(query + ROWS - key) - ROWS : ROWS;
}

__device__ inline bool is_masked(const attention_shape &s)
{
    return s.mask.window > 0 || s.mask.documents.device_starts.data;
}

__device__ inline unsigned document_start(const attention_shape &s, size_t i, unsigned sequence)
{
    const int *starts = (const int *)s.mask.documents.device_starts.data;
    return starts ? (unsigned)starts[i * s.batch + sequence] : 0;
}

__device__ inline unsigned prefix_of(const attention_shape &s, unsigned sequence)
{
    const int *prefixes = (const int *)s.mask.documents.device_prefixes.data;
    return prefixes ? (unsigned)prefixes[sequence] : 0;
}

// The keys that query i of a sequence sees.
__device__ inline seen_keys query_keys(const attention_shape &s, size_t i, unsigned sequence)
{
    return seen_keys_of((unsigned)(s.start + i + 1), s.mask.window, document_start(s, i, sequence),
                        prefix_of(s, sequence));
}

// Number of first queries of a sequence that see the key, which is not a prefix's, or an earlier one.
__device__ inline size_t queries_until(const attention_shape &s, size_t key, unsigned sequence)
{
    size_t low = 0, high = s.queries;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (query_keys(s, middle, sequence).own <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The key tiles that a tile of queries sees: `count` from number `first` on, except `skipped` from number `gap` on;
// the first of them are partly masked.
struct key_tiles {
    unsigned first, count, masked, gap, skipped;
    __device__ unsigned number(unsigned index) const { return first + index + (first + index < gap ? 0 : skipped); }
};

// For `count` queries from `first` on, which see no key from `keys` on.
template <int ROWS>
__device__ key_tiles key_tiles_of(const attention_shape &s, unsigned sequence, size_t first, int count, size_t keys)
{
    unsigned end = (unsigned)((keys + ROWS - 1) / ROWS);
    key_tiles tiles = {0, end, 0, 0, 0};
    if (is_masked(s)) {
        seen_keys seen = query_keys(s, first, sequence);
        unsigned own = std::min(seen.own, (unsigned)keys) / ROWS,
                 start = document_start(s, first + count - 1, sequence);
        unsigned touched = query_keys(s, first + count - 1, sequence).own;
        if (start !=
            document_start(s, first, sequence)) // a document begins here: its first query sees most of a prefix
            seen.first = seen_keys_of(start + 1, s.mask.window, start, seen.end).first;
        tiles.first = own;
        if (seen.first < seen.end) {
            tiles.first = std::min(seen.first / ROWS, own);
            tiles.gap = std::min((seen.end + ROWS - 1) / ROWS, own);
            tiles.skipped = own - tiles.gap;
        }
        tiles.count = end - tiles.first - tiles.skipped;
        tiles.masked = (touched + ROWS - 1) / ROWS - tiles.first - tiles.skipped;
    }
    return tiles;
}

// Caps a thread's scores.
template <int R, class A> __device__ void cap_scores(A (&scores)[R][R], A cap)
{
    if (cap > A(0)) {
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int j = 0; j < R; j++)
                scores[i][j] = capped(scores[i][j], cap);
    }
}

// dS = P (dP - delta), with a cap times its slope at S, which P and the logsumexp give: keeping S takes registers.
template <class A> __device__ A score_gradient(A p, A grad_p, A logsumexp, A delta, A cap)
{
    A grad = p * (grad_p - delta);
    return cap > A(0) && p > A(0) ? grad * cap_slope(log(p) + logsumexp, cap) : grad;
}

// Sets scores to -infinity where a query does not see a key: rows are `count` queries from `first` on, columns are
// keys from `key` on.
template <int R, class A>
__device__ void mask_scores(A (&scores)[R][R], const attention_shape &s, unsigned sequence, size_t first, int count,
                            size_t key)
{
    int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll
    for (int i = 0; i < R; i++) {
        int query = y + i * SIDE;
        seen_keys seen = query_keys(s, first + (query < count ? query : count - 1), sequence);
#pragma unroll
        for (int j = 0; j < R; j++)
            if (!seen_keys_have(seen, key + x + j * SIDE))
                scores[i][j] = -INFINITY;
    }
}

// Sets P to 0 there, in a thread's part in shared memory, which saves registers; keys are rows or columns.
template <int DIM, int R, bool KEYS_ARE_ROWS, class A>
__device__ void mask_p(A *p, const attention_shape &s, unsigned sequence, size_t first, int count, size_t key)
{
    int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll 1
    for (int n = 0; n < R; n++) {
        int query = (KEYS_ARE_ROWS ? x : y) + n * SIDE;
        seen_keys seen = query_keys(s, first + (query < count ? query : count - 1), sequence);
#pragma unroll 1
        for (int m = 0; m < R; m++)
            if (!seen_keys_have(seen, key + (KEYS_ARE_ROWS ? y : x) + m * SIDE))
                score_at<DIM, R>(p, KEYS_ARE_ROWS ? m : n, KEYS_ARE_ROWS ? n : m) = A(0);
    }
}

// The column of element c of a thread's part of [ROWS, DIM].
template <class A> __device__ int column_of(int c)
{
    constexpr int WORD = LANES<A>;
    return c / WORD * WORD * SIDE + threadIdx.x % SIDE * WORD + c % WORD;
}

} // namespace attention
