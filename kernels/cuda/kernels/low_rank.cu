// Low rank, in bf16 on tensor cores:  product = alpha * wide * op(factor);  grad += alpha * wide^T coefficients, or
// its transpose. Each number of wide is read once.
// A block processes a strip of columns and a group of rows, 16 at a time. A warp holds its 64 columns' factors and
// sums of grad in registers; its part of product is added to the other warps'. A second kernel adds the blocks'
// sums in order.
#include "kernels/cuda/kernels/columns.cuh"
#include "kernels/cuda/kernels/tensor_core.cuh"
#include "kernels/cuda/workspace.h"

namespace
{

constexpr int WARPS = 8, THREADS = 32 * WARPS, ROWS = 16, WARP_COLS = CUDA_LOW_RANK_STRIP / WARPS;
// A lane reads 16 bytes of a row at a time, 32 columns together with three others; mma takes 16 of them per step.
constexpr int LOADS = WARP_COLS / 32, STEPS = 2 * LOADS;
constexpr size_t GROUPS = 16, GROUP_ROWS = 64; // the number of groups, as long as they have enough rows

struct operands {
    const uint16_t *wide, *factor, *coefficients;
    float *products, *grads; // [strips, rows, rank] and [groups, elements of factor]; NULL: not computed
    size_t cols, rank;
    size_t col_stride, rank_stride; // of factor and grad
    float alpha;
    bool vector; // rows of wide are aligned for 16-byte reads
    size_t rows, group_rows;
};

__device__ __forceinline__ uint32_t pair_of(uint32_t first, uint32_t second)
{
    return first | second << 16;
}

// 16 rows of a warp's columns: lane 4 g + t has, for rows g and g + 8, columns 8t .. 8t + 7 of each 32, in pairs.
// The order of mma's 16 columns does not matter if it is the same for both factors: step 2i + j takes columns 8t +
// 4j .. 8t + 4j + 3 of load i.
using tile = uint32_t[2][LOADS][4];

__device__ __forceinline__ void read_tile(tile &to, const operands &o, size_t row, size_t end, size_t column)
{
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int load = 0; load < LOADS; load++) {
            size_t r = row + 8 * half + g, c = column + 32 * load + 8 * t;
            size_t left = r < end && c < o.cols ? o.cols - c : 0;
            const uint16_t *from = o.wide + r * o.cols + c;
            if (o.vector && left) {
                pack<uint32_t, 4> p = *reinterpret_cast<const pack<uint32_t, 4> *>(from);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    to[half][load][i] = p.at[i];
            } else {
#pragma unroll
                for (size_t i = 0; i < 4; i++)
                    to[half][load][i] =
                        pair_of(2 * i < left ? from[2 * i] : 0, 2 * i + 1 < left ? from[2 * i + 1] : 0);
            }
        }
    }
}

// Reads coefficients of up to two rows, from `row` on.
__device__ __forceinline__ uint32_t read_coefficients(const operands &o, size_t row, size_t end, size_t j)
{
    const uint16_t *from = o.coefficients + row * o.rank + j;
    bool there = j < o.rank;
    return pair_of(there && row < end ? from[0] : 0, there && row + 1 < end ? from[o.rank] : 0);
}

// Block (x, y): strip x, group y of the rows. TILES: groups of 8 in the rank.
template <int TILES> __global__ void __launch_bounds__(THREADS) pass(operands o)
{
    constexpr int RANK = 8 * TILES, PAIRS = ROWS / 2 * RANK, PAD = TILES > 1 ? 8 : 0;
    __shared__ uint32_t coefficients[2][RANK][ROWS / 2 + 4]; // pairs of rows
    __shared__ float products[2][WARPS][ROWS][RANK + PAD];
    int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, thread = threadIdx.x;
    size_t column = ((size_t)blockIdx.x * WARPS + warp) * WARP_COLS;
    size_t first = blockIdx.y * o.group_rows, end = first + o.group_rows < o.rows ? first + o.group_rows : o.rows;
    uint32_t factor[STEPS][TILES][2] = {};
    float grad[STEPS][TILES][4] = {};
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
#pragma unroll
        for (int i = 0; i < 2 * TILES; i++) {
            size_t c = column + 32 * (step / 2) + 8 * t + 4 * (step % 2) + 2 * (i % 2), j = 8 * (i / 2) + g;
            const uint16_t *from = o.factor + c * o.col_stride + j * o.rank_stride;
            bool there = o.products && j < o.rank;
            factor[step][i / 2][i % 2] =
                pair_of(there && c < o.cols ? from[0] : 0, there && c + 1 < o.cols ? from[o.col_stride] : 0);
        }
    }
    tile now, next;
    uint32_t pair = 0;
    size_t pair_row = 2 * (thread / RANK), j = thread % RANK; // loaded by this thread
    bool brings = o.grads && thread < PAIRS;
    read_tile(now, o, first, end, column);
    if (brings)
        coefficients[0][j][pair_row / 2] = read_coefficients(o, first + pair_row, end, j);
    __syncthreads();
    int buffer = 0;
    for (size_t row = first; row < end; row += ROWS, buffer ^= 1) {
        read_tile(next, o, row + ROWS, end, column);
        if (brings)
            pair = read_coefficients(o, row + ROWS + pair_row, end, j);
        if (o.products) {
            float sum[TILES][4] = {};
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                const uint32_t(&low)[4] = now[0][step / 2], (&high)[4] = now[1][step / 2];
                const int i = 2 * (step % 2);
                const uint32_t a[4] = {low[i], high[i], low[i + 1], high[i + 1]};
#pragma unroll
                for (int q = 0; q < TILES; q++)
                    mma(sum[q], a, factor[step][q]);
            }
#pragma unroll
            for (int q = 0; q < TILES; q++) {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    products[buffer][warp][g + 8 * (i / 2)][8 * q + 2 * t + i % 2] = sum[q][i];
            }
        }
        if (o.grads) {
            uint32_t b[TILES][2];
#pragma unroll
            for (int q = 0; q < TILES; q++) {
                b[q][0] = coefficients[buffer][8 * q + g][t];
                b[q][1] = coefficients[buffer][8 * q + g][t + 4];
            }
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                const uint32_t(&low)[4] = now[0][step / 2], (&high)[4] = now[1][step / 2];
                const int i = 2 * (step % 2);
                const uint32_t a[4] = {transposed(low[i]), transposed(low[i + 1]), transposed(high[i]),
                                       transposed(high[i + 1])};
#pragma unroll
                for (int q = 0; q < TILES; q++)
                    mma(grad[step][q], a, b[q]);
            }
            if (brings)
                coefficients[buffer ^ 1][j][pair_row / 2] = pair;
        }
        __syncthreads();
        for (int i = thread; i < ROWS * RANK && o.products; i += THREADS) {
            size_t r = row + i / RANK, k = i % RANK;
            float sum = 0;
#pragma unroll
            for (int w = 0; w < WARPS; w++)
                sum += products[buffer][w][i / RANK][k];
            if (r < end && k < o.rank)
                o.products[(blockIdx.x * o.rows + r) * o.rank + k] = o.alpha * sum;
        }
#pragma unroll
        for (int i = 0; i < 2 * LOADS * 4; i++)
            now[i / (4 * LOADS)][i / 4 % LOADS][i % 4] = next[i / (4 * LOADS)][i / 4 % LOADS][i % 4];
    }
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
#pragma unroll
        for (int i = 0; i < 4 * TILES; i++) {
            // After the transpose, row g is the column that lanes g / 2 of each four had in half g % 2 of a pair.
            size_t c = column + 32 * (step / 2) + 8 * (g / 2) + g % 2 + 4 * (step % 2) + 2 * (i % 4 / 2);
            size_t k = 8 * (i / 4) + 2 * t + i % 2;
            if (o.grads && c < o.cols && k < o.rank)
                o.grads[blockIdx.y * o.cols * o.rank + c * o.col_stride + k * o.rank_stride] =
                    o.alpha * grad[step][i / 4][i % 4];
        }
    }
}

// Adds the blocks' sums: product's in the first blocks, grad's in the others.
template <class G>
__global__ void finish(__nv_bfloat16 *product, const float *products, size_t product_count, size_t strips, G *grad,
                       const float *grads, size_t grad_count, size_t groups)
{
    size_t blocks = (product_count + 31) / 32;
    if (blockIdx.x < blocks)
        sum_slices(product, false, products, product_count, strips, blockIdx.x);
    else
        sum_slices(grad, true, grads, grad_count, groups, blockIdx.x - blocks);
}

size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

void (*pass_for(size_t rank))(operands)
{
    return rank <= 8 ? pass<1> : rank <= 16 ? pass<2> : pass<4>;
}

} // namespace

void cuda_low_rank(struct device *device, struct tensor product, struct tensor grad, struct tensor wide,
                   struct tensor factor, enum transpose transpose, struct tensor coefficients, double alpha)
{
    size_t cols = wide.cols, rank = transpose ? factor.rows : factor.cols, elements = cols * rank;
    size_t room = tensor_bytes(device->workspace) / 2 / sizeof(float), strips = ceil_div(cols, CUDA_LOW_RANK_STRIP);
    float *products = (float *)cuda_workspace(device, cuda_stream(device));
    CHECK(wide.dtype == DTYPE_BF16 && rank <= CUDA_LOW_RANK_MAX && elements <= room);
    operands o = {(const uint16_t *)wide.data,
                  (const uint16_t *)factor.data,
                  (const uint16_t *)coefficients.data,
                  product.data ? products : nullptr,
                  grad.data ? products + room : nullptr,
                  cols,
                  rank,
                  transpose ? 1 : rank,
                  transpose ? cols : 1,
                  (float)alpha,
                  aligned(8, cols, wide),
                  0,
                  0};
    auto *to = (__nv_bfloat16 *)product.data;
    for (size_t row = 0; row < wide.rows; row += o.rows) {
        o.rows = min_of(wide.rows - row, room / (strips * rank));
        size_t fewest = ceil_div(o.rows, room / elements), usual = min_of(ceil_div(o.rows, GROUPS), GROUP_ROWS);
        o.group_rows = ceil_div(usual > fewest ? usual : fewest, ROWS) * ROWS;
        size_t groups = ceil_div(o.rows, o.group_rows);
        size_t product_count = to ? o.rows * rank : 0, grad_count = grad.data ? elements : 0;
        launch(pass_for(rank), dim3(strips, groups), THREADS, 0, device, o);
        with_accumulator<__nv_bfloat16>(grad.data ? grad.dtype : DTYPE_F32, DTYPE_BF16, [&](auto type) {
            using G = typename decltype(type)::type;
            launch(finish<G>, dim3(ceil_div(product_count, 32) + ceil_div(grad_count, 32)), 32 * COLUMN_WARPS, 0,
                   device, to, o.products, product_count, strips, (G *)grad.data, o.grads, grad_count, groups);
        });
        o.wide += o.rows * cols;
        o.coefficients += grad.data ? o.rows * rank : 0;
        to += to ? o.rows * rank : 0;
    }
}
