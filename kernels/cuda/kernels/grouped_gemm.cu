// Products of rows with their experts' matrices. A block makes one tile of them: in bf16 on tensor cores, if rows
// are whole words of 16 bytes, else on SIMT units. Of products by rows, expert e has the tiles floor(s / ROWS) + e
// .. of s its first row in the block: at least as many as it needs, and none of another's, so that a tile finds its
// expert in `starts` and nothing about the counts is known on the host. Tiles without rows end at once. A number's
// sum has one order, whatever the tile. Not timed on a card.
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/tensor_core.cuh"
extern "C" {
#include "kernels/cuda/workspace.h"
}

namespace
{

// Rows of the block that are an expert's.
struct block_rows {
    const int32_t *starts;
    size_t experts, first, rows;
    __device__ size_t start(size_t e) const
    {
        size_t at = (size_t)starts[e];
        return at < first ? 0 : at - first < rows ? at - first : rows;
    }
};

// The rows of a tile of products by rows: [row, end) of the block, at most ROWS of them; none from row end on.
struct tile_rows {
    size_t expert, row, end;
};

// Each warp counts the experts whose tiles begin at or before this one; the last of them has it. Tiles before the
// first one's, rows of other ranks' experts, have none.
template <int ROWS> __device__ tile_rows rows_of_tile(const block_rows &block, size_t tile)
{
    int before = 0;
    for (size_t e = threadIdx.x % 32; e < block.experts; e += 32)
        before += block.start(e) / ROWS + e <= tile;
    before = warp_sum(before);
    if (before == 0)
        return {0, 0, 0};
    size_t e = (size_t)before - 1, begin = block.start(e);
    return {e, begin + (tile - (begin / ROWS + e)) * ROWS, block.start(e + 1)};
}

// A tile's place among rows x columns of them, by number: in bands of rows, by columns within a band. Tiles that
// run at a time share factors, which the L2 cache holds.
struct tile_place {
    unsigned row, column;
    __device__ tile_place(unsigned number, unsigned rows, unsigned columns)
    {
        constexpr unsigned BAND = 8;
        unsigned first = number / (BAND * columns) * BAND, within = number % (BAND * columns);
        unsigned band = rows - first < BAND ? rows - first : BAND;
        row = first + within % band, column = within / band;
    }
};

// ---- SIMT units: each thread makes EACH x EACH numbers of a tile of TILE x TILE

constexpr int TILE = 64, SLICE = 16, SIDE = 16, EACH = TILE / SIDE, THREADS = SIDE * SIDE;

// sum += a(i, k) b(k, j) for the thread's i and j; a and b give 0 outside. reverse: the last slice of k first.
template <class A, class Left, class Right>
__device__ void add_products(A (&sum)[EACH][EACH], size_t depth, bool reverse, Left a, Right b)
{
    __shared__ A left[SLICE][TILE + 1], right[SLICE][TILE + 1];
    size_t i = threadIdx.x / SIDE, j = threadIdx.x % SIDE, last = (depth - 1) / SLICE;
    for (size_t slice = 0; slice <= last; slice++) {
        size_t first = (reverse ? last - slice : slice) * SLICE;
        for (size_t x = threadIdx.x; x < (size_t)SLICE * TILE; x += THREADS) {
            size_t k = x % SLICE, at = x / SLICE;
            left[k][at] = first + k < depth ? a(at, first + k) : A(0);
            right[k][at] = first + k < depth ? b(first + k, at) : A(0);
        }
        __syncthreads();
        for (int k = 0; k < SLICE; k++)
            for (int u = 0; u < EACH; u++)
                for (int v = 0; v < EACH; v++)
                    sum[u][v] += left[k][i + u * SIDE] * right[k][j + v * SIDE];
        __syncthreads();
    }
}

// c[r] = a[r] op(b_e): of b [out, in] an expert, transposed or not; c [.., m], a [.., k].
template <class T, bool TRANSPOSED>
__global__ void by_rows(T *c, const T *a, const T *b, block_rows block, size_t m, size_t k, bool reverse)
{
    using A = wide_t<T>;
    tile_rows tile = rows_of_tile<TILE>(block, blockIdx.x);
    size_t row = tile.row, end = tile.end, column = blockIdx.y * (size_t)TILE;
    if (row >= end)
        return;
    const T *matrix = b + tile.expert * m * k;
    A sum[EACH][EACH] = {};
    add_products(
        sum, k, reverse, [&](size_t i, size_t l) { return row + i < end ? widen<A>(a[(row + i) * k + l]) : A(0); },
        [&](size_t l, size_t j) {
            size_t at = column + j;
            return at < m ? widen<A>(TRANSPOSED ? matrix[at * k + l] : matrix[l * m + at]) : A(0);
        });
    for (int u = 0; u < EACH; u++) {
        for (int v = 0; v < EACH; v++) {
            size_t i = row + threadIdx.x / SIDE + u * SIDE, j = column + threadIdx.x % SIDE + v * SIDE;
            if (i < end && j < m)
                narrow(c[i * m + j], sum[u][v]);
        }
    }
}

// c_e += alpha sum over the block's rows of e of a[r]T b[r].
template <class T, class G>
__global__ void by_experts(G *c, const T *a, const T *b, block_rows block, size_t out, size_t in, double alpha,
                           bool reverse)
{
    using A = wide_t<T>;
    size_t tiles = (out + TILE - 1) / TILE, e = blockIdx.x / tiles, begin = block.start(e),
           end = block.start(e + 1);
    size_t row = blockIdx.x % tiles * TILE, column = blockIdx.y * (size_t)TILE;
    if (begin == end)
        return;
    A sum[EACH][EACH] = {};
    add_products(
        sum, end - begin, reverse,
        [&](size_t i, size_t r) { return row + i < out ? widen<A>(a[(begin + r) * out + row + i]) : A(0); },
        [&](size_t r, size_t j) { return column + j < in ? widen<A>(b[(begin + r) * in + column + j]) : A(0); });
    for (int u = 0; u < EACH; u++) {
        for (int v = 0; v < EACH; v++) {
            size_t i = row + threadIdx.x / SIDE + u * SIDE, j = column + threadIdx.x % SIDE + v * SIDE;
            if (i < out && j < in) {
                G &to = c[(e * out + i) * in + j];
                narrow(to, widen<A>(to) + (A)alpha * sum[u][v]);
            }
        }
    }
}

// ---- Tensor cores: four warps make a tile, each of them 64 of its rows, 16 at a time

using bf16 = __nv_bfloat16;

constexpr int WARPS = 4, WARP_ROWS = 64, COLUMNS = 128, DEPTH = 32; // terms of a stage

// Tiles have ROWS 128 and warps 64 columns where experts have many rows: the most numbers for what is read from
// shared memory. Where they have few, reading the matrices takes the time: tiles have 64 rows, of which 16 at a
// time are left out where there are none, and more stages are underway. Three stages of one and four of the other
// are 48 KiB, so that a multiprocessor of any card from 8.0 on, which has at least 100, runs two blocks.
template <int ROWS> struct shape {
    static constexpr bool NARROW = ROWS == WARP_ROWS;
    static constexpr int STAGES = NARROW ? 4 : 3, WARP_COLUMNS = COLUMNS / WARPS * (ROWS / WARP_ROWS);
    static constexpr int STAGE_BYTES = (ROWS + COLUMNS) * DEPTH * (int)sizeof(bf16);
    static constexpr int M = WARP_ROWS / 16, N = WARP_COLUMNS / 8; // fragments of a warp's sum
    static constexpr int STRIDE = WARP_COLUMNS + 8;                // of 16 rows on their way to c
    static constexpr size_t BYTES = STAGES * STAGE_BYTES;
    static_assert(WARPS * 16 * STRIDE * sizeof(float) <= BYTES && BYTES <= 48 << 10, "two blocks run at a time");
    __device__ static int row() { return threadIdx.x / 32 % (ROWS / WARP_ROWS) * WARP_ROWS; } // of the warp
    __device__ static int column() { return threadIdx.x / 32 / (ROWS / WARP_ROWS) * WARP_COLUMNS; }
};

// A factor of a tile's products: LINES lines, of which `lines` are there, [lines, terms] or, ACROSS, [terms,
// lines]. A stage has it as it lies, in words of 16 bytes, which are shuffled so that eight rows of a fragment lie
// in different banks.
template <bool ACROSS, int LINES> struct factor {
    const bf16 *from;
    size_t stride, lines, terms;
    static constexpr int BYTES = LINES * DEPTH * (int)sizeof(bf16), WORDS = (ACROSS ? LINES : DEPTH) / 8;

    __device__ static int place(int row, int word)
    {
        return 16 * (row * WORDS + (word ^ (ACROSS ? row % 8 : row / 2 % 4)));
    }

    __device__ void copy(unsigned char *stage, size_t term) const
    {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i += 32 * WARPS) {
            int row = (i + (int)threadIdx.x) / WORDS, word = (i + (int)threadIdx.x) % WORDS;
            size_t line = ACROSS ? 8 * word : row, at = term + (ACROSS ? row : 8 * word);
            bool there = line < lines && at < terms;
            const bf16 *word_from = ACROSS ? from + at * stride + line : from + line * stride + at;
            copy_async(stage + place(row, word), there ? word_from : from, there);
        }
    }

    // 16 lines by 16 terms, as mma's left factor; numbers 0 and 2, 1 and 3 are right factors of 8 lines each.
    __device__ static void fragment(uint32_t (&to)[4], const unsigned char *stage, int line, int term)
    {
        int lane = threadIdx.x % 32, eighth = lane % 16 / 8 * 8, half = lane / 16 * 8;
        if constexpr (ACROSS)
            load_matrices<true>(to, stage + place(term + half + lane % 8, (line + eighth) / 8));
        else
            load_matrices<false>(to, stage + place(line + eighth + lane % 8, (term + half) / 8));
    }
};

// sum[m][n] = the warp's part of a tile, as mma has it. reverse: the last terms first. A barrier must precede what
// else shared memory is for.
template <class S, class Left, class Right>
__device__ void multiply(float (&sum)[S::M][S::N][4], const Left &a, const Right &b, unsigned char *stages,
                         bool reverse)
{
    size_t count = (a.terms + DEPTH - 1) / DEPTH;
    int rows = (int)(a.lines < COLUMNS ? a.lines : COLUMNS) - S::row(); // of the warp, that there are
    bool idle = rows <= 0 || (size_t)S::column() >= b.lines;
    auto copy = [&](size_t stage) {
        unsigned char *to = stages + stage % S::STAGES * S::STAGE_BYTES;
        if (stage < count) {
            size_t term = (reverse ? count - 1 - stage : stage) * DEPTH;
            a.copy(to, term);
            b.copy(to + Left::BYTES, term);
        }
        copies_commit();
    };
#pragma unroll
    for (int stage = 0; stage < S::STAGES - 1; stage++)
        copy(stage);
    for (size_t stage = 0; stage < count; stage++) {
        copies_wait<S::STAGES - 2>();
        __syncthreads(); // all have their copies, and have read the stage that the next ones replace
        copy(stage + S::STAGES - 1);
        const unsigned char *left = stages + stage % S::STAGES * S::STAGE_BYTES, *right = left + Left::BYTES;
        if (idle)
            continue;
#pragma unroll
        for (int term = 0; term < DEPTH; term += 16) {
            uint32_t columns[S::N / 2][4];
#pragma unroll
            for (int n = 0; n < S::N; n += 2)
                Right::fragment(columns[n / 2], right, S::column() + 8 * n, term);
#pragma unroll
            for (int m = 0; m < S::M; m++) {
                if (S::NARROW && 16 * m >= rows)
                    break;
                uint32_t lines[4];
                Left::fragment(lines, left, S::row() + 16 * m, term);
#pragma unroll
                for (int n = 0; n < S::N; n++) {
                    const uint32_t(&of)[4] = columns[n / 2];
                    const uint32_t two[2] = {of[n % 2], of[n % 2 + 2]};
                    mma(sum[m][n], lines, two);
                }
            }
        }
    }
    copies_wait<0>();
}

// c = sum or, ADDED, c += alpha sum, for the rows and columns of the tile that are there; by way of shared memory,
// in words of 16 bytes.
template <class S, bool ADDED, class G>
__device__ void store_tile(G *c, size_t stride, size_t rows, size_t columns, float alpha,
                           const float (&sum)[S::M][S::N][4], unsigned char *memory)
{
    constexpr int N = LANES<G>, WORDS = S::WARP_COLUMNS / N, WORDS_EACH = 16 * WORDS / 32;
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float *own = (float *)memory + threadIdx.x / 32 * 16 * S::STRIDE;
    __syncthreads();
#pragma unroll
    for (int m = 0; m < S::M; m++) {
#pragma unroll
        for (int n = 0; n < S::N; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                pack<float, 2> pair = {{sum[m][n][2 * half], sum[m][n][2 * half + 1]}};
                *(pack<float, 2> *)(own + (g + 8 * half) * S::STRIDE + 8 * n + 2 * t) = pair;
            }
        __syncwarp();
        auto each = [&](auto body) {
#pragma unroll
            for (int i = 0; i < WORDS_EACH; i++) {
                int row = (lane + 32 * i) / WORDS, column = (lane + 32 * i) % WORDS * N;
                size_t r = S::row() + 16 * m + row, at = S::column() + column;
                if (r < rows && at < columns)
                    body(i, c + r * stride + at, own + row * S::STRIDE + column);
            }
        };
        float before[WORDS_EACH][N];
        if constexpr (ADDED)
            each([&](int i, G *to, const float *) { read(before[i], to); });
        each([&](int i, G *to, const float *from) {
            float x[N];
#pragma unroll
            for (int j = 0; j < N; j++)
                x[j] = ADDED ? before[i][j] + alpha * from[j] : from[j];
            write(to, x);
        });
        __syncwarp();
    }
}

template <int ROWS, bool TRANSPOSED>
__global__ void __launch_bounds__(32 * WARPS, shape<ROWS>::NARROW ? 3 : 2)
    tensor_by_rows(bf16 *c, const bf16 *a, const bf16 *b, block_rows block, unsigned tiles, size_t m, size_t k,
                   bool reverse)
{
    using S = shape<ROWS>;
    DYNAMIC_SHARED(memory);
    tile_place place(blockIdx.x, tiles, gridDim.x / tiles);
    tile_rows tile = rows_of_tile<ROWS>(block, place.row);
    if (tile.row >= tile.end)
        return;
    size_t column = place.column * (size_t)COLUMNS, rows = tile.end - tile.row, columns = m - column;
    const bf16 *matrix = b + tile.expert * m * k;
    factor<false, ROWS> left = {a + tile.row * k, k, rows, k};
    factor<!TRANSPOSED, COLUMNS> right = {matrix + column * (TRANSPOSED ? k : 1), TRANSPOSED ? k : m, columns, k};
    float sum[S::M][S::N][4] = {};
    multiply<S>(sum, left, right, memory, reverse);
    store_tile<S, false>(c + tile.row * m + column, m, rows, columns, 1, sum, memory);
}

template <class G>
__global__ void __launch_bounds__(32 * WARPS, 2)
    tensor_by_experts(G *c, const bf16 *a, const bf16 *b, block_rows block, unsigned tiles, size_t out, size_t in,
                      float alpha, bool reverse)
{
    using S = shape<COLUMNS>;
    DYNAMIC_SHARED(memory);
    unsigned rows_of_tiles = (unsigned)((out + COLUMNS - 1) / COLUMNS);
    size_t e = blockIdx.x / tiles, begin = block.start(e), end = block.start(e + 1);
    if (begin == end)
        return;
    tile_place place(blockIdx.x % tiles, rows_of_tiles, tiles / rows_of_tiles);
    size_t row = place.row * (size_t)COLUMNS, column = place.column * (size_t)COLUMNS;
    size_t rows = out - row, columns = in - column;
    G *to = c + (e * out + row) * in + column;
    constexpr unsigned LINES = sizeof(G), LINE = 128 / sizeof(G); // of 128 bytes, in a row of the tile
    for (unsigned i = threadIdx.x; i < COLUMNS * LINES; i += 32 * WARPS)
        if (i / LINES < rows && i % LINES * LINE < columns)
            prefetch(to + i / LINES * in + i % LINES * LINE);
    factor<true, COLUMNS> left = {a + begin * out + row, out, rows, end - begin};
    factor<true, COLUMNS> right = {b + begin * in + column, in, columns, end - begin};
    float sum[S::M][S::N][4] = {};
    multiply<S>(sum, left, right, memory, reverse);
    store_tile<S, true>(to, in, rows, columns, alpha, sum, memory);
}

// Products by rows in tiles of so many rows.
template <int ROWS>
void run_tensor_by_rows(struct device *device, const block_rows &block, struct tensor c, struct tensor a,
                        struct tensor b, enum transpose transpose_b)
{
    size_t tiles = a.rows / ROWS + block.experts;
    launch(transpose_b ? tensor_by_rows<ROWS, true> : tensor_by_rows<ROWS, false>,
           dim3(tiles * ceil_div(c.cols, COLUMNS)), 32 * WARPS, shape<ROWS>::BYTES, device, (bf16 *)c.data,
           (const bf16 *)a.data, (const bf16 *)b.data, block, tiles, c.cols, a.cols, device->reverse_sums);
}

void run_on_tensor_cores(struct device *device, const struct expert_rows &experts, const block_rows &block,
                         struct tensor c, struct tensor a, enum transpose transpose_a, struct tensor b,
                         enum transpose transpose_b, double alpha)
{
    if (!transpose_a && experts.rows <= WARP_ROWS * block.experts)
        return run_tensor_by_rows<WARP_ROWS>(device, block, c, a, b, transpose_b);
    if (!transpose_a)
        return run_tensor_by_rows<COLUMNS>(device, block, c, a, b, transpose_b);
    size_t out = a.cols, in = b.cols, tiles = ceil_div(out, COLUMNS) * ceil_div(in, COLUMNS);
    with_accumulator<bf16>(c.dtype, a.dtype, [&](auto sums) {
        using G = typename decltype(sums)::type;
        launch(tensor_by_experts<G>, dim3(tiles * block.experts), 32 * WARPS, shape<COLUMNS>::BYTES, device,
               (G *)c.data, (const bf16 *)a.data, (const bf16 *)b.data, block, tiles, out, in, alpha,
               device->reverse_sums);
    });
}

} // namespace

void cuda_grouped_gemm(struct device *device, struct expert_rows experts, struct tensor c, struct tensor a,
                       enum transpose transpose_a, struct tensor b, enum transpose transpose_b, double alpha)
{
    block_rows block = {(const int32_t *)experts.starts.data, experts.starts.rows - 1, experts.first, a.rows};
    bool words = aligned(8, a.cols, a, b, c) && b.cols % 8 == 0 && c.cols % 8 == 0;
    if (words && cuda_grouped_takes_tensor_cores(device))
        return run_on_tensor_cores(device, experts, block, c, a, transpose_a, b, transpose_b, alpha);
    with_type(a.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        const T *left = (const T *)a.data, *right = (const T *)b.data;
        if (transpose_a) {
            size_t out = a.cols, in = b.cols;
            with_accumulator<T>(c.dtype, a.dtype, [&](auto sums) {
                using G = typename decltype(sums)::type;
                launch(by_experts<T, G>, dim3(ceil_div(out, TILE) * block.experts, ceil_div(in, TILE)), THREADS, 0,
                       device, (G *)c.data, left, right, block, out, in, alpha, device->reverse_sums);
            });
            return;
        }
        dim3 grid(a.rows / TILE + block.experts, ceil_div(c.cols, TILE));
        launch(transpose_b ? by_rows<T, true> : by_rows<T, false>, grid, THREADS, 0, device, (T *)c.data, left,
               right, block, c.cols, a.cols, device->reverse_sums);
    });
}
