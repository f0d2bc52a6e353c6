// Products of rows with their experts' matrices, on SIMT units: a block makes a tile of TILE x TILE, each thread
// EACH x EACH numbers of it. Of products by rows, expert e has the tiles floor(s / TILE) + e .. of s its first row
// in the block: at least as many as it needs, and none of another's, so that a tile finds its expert by bisection
// and nothing about the counts is known on the host. Tiles without rows end at once. Not timed on a card.
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"

namespace
{

constexpr int TILE = 64, DEPTH = 16, SIDE = 16, EACH = TILE / SIDE, THREADS = SIDE * SIDE;

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

// sum += a(i, k) b(k, j) for the thread's i and j; a and b give 0 outside.
template <class A, class Left, class Right>
__device__ void add_products(A (&sum)[EACH][EACH], size_t depth, Left a, Right b)
{
    __shared__ A left[DEPTH][TILE + 1], right[DEPTH][TILE + 1];
    size_t i = threadIdx.x / SIDE, j = threadIdx.x % SIDE;
    for (size_t first = 0; first < depth; first += DEPTH) {
        for (size_t x = threadIdx.x; x < (size_t)DEPTH * TILE; x += THREADS) {
            size_t k = x % DEPTH, at = x / DEPTH;
            left[k][at] = first + k < depth ? a(at, first + k) : A(0);
            right[k][at] = first + k < depth ? b(first + k, at) : A(0);
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; k++)
            for (int u = 0; u < EACH; u++)
                for (int v = 0; v < EACH; v++)
                    sum[u][v] += left[k][i + u * SIDE] * right[k][j + v * SIDE];
        __syncthreads();
    }
}

// c[r] = a[r] op(b_e): of b [out, in] an expert, transposed or not; c [.., m], a [.., k].
template <class T, bool TRANSPOSED>
__global__ void by_rows(T *c, const T *a, const T *b, block_rows block, size_t m, size_t k)
{
    using A = wide_t<T>;
    size_t low = 0, high = block.experts; // the last expert whose tiles begin at or before this one
    while (low + 1 < high) {
        size_t e = (low + high) / 2;
        if (block.start(e) / TILE + e <= blockIdx.x)
            low = e;
        else
            high = e;
    }
    size_t e = low, begin = block.start(e), end = block.start(e + 1);
    size_t row = begin + (blockIdx.x - (begin / TILE + e)) * TILE, column = blockIdx.y * (size_t)TILE;
    if (row >= end)
        return;
    const T *matrix = b + e * m * k;
    A sum[EACH][EACH] = {};
    add_products(
        sum, k, [&](size_t i, size_t l) { return row + i < end ? widen<A>(a[(row + i) * k + l]) : A(0); },
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
__global__ void by_experts(G *c, const T *a, const T *b, block_rows block, size_t out, size_t in, double alpha)
{
    using A = wide_t<T>;
    size_t tiles = (out + TILE - 1) / TILE, e = blockIdx.x / tiles, begin = block.start(e),
           end = block.start(e + 1);
    size_t row = blockIdx.x % tiles * TILE, column = blockIdx.y * (size_t)TILE;
    if (begin == end)
        return;
    A sum[EACH][EACH] = {};
    add_products(
        sum, end - begin,
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

} // namespace

void cuda_grouped_gemm(struct device *device, struct expert_rows experts, struct tensor c, struct tensor a,
                       enum transpose transpose_a, struct tensor b, enum transpose transpose_b, double alpha)
{
    block_rows block = {(const int32_t *)experts.starts.data, experts.starts.rows - 1, experts.first, a.rows};
    with_type(a.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        const T *left = (const T *)a.data, *right = (const T *)b.data;
        if (transpose_a) {
            size_t out = a.cols, in = b.cols;
            with_accumulator<T>(c.dtype, a.dtype, [&](auto sums) {
                using G = typename decltype(sums)::type;
                launch(by_experts<T, G>, dim3(ceil_div(out, TILE) * block.experts, ceil_div(in, TILE)), THREADS, 0,
                       device, (G *)c.data, left, right, block, out, in, alpha);
            });
            return;
        }
        dim3 grid(a.rows / TILE + block.experts, ceil_div(c.cols, TILE));
        launch(transpose_b ? by_rows<T, true> : by_rows<T, false>, grid, THREADS, 0, device, (T *)c.data, left,
               right, block, c.cols, a.cols);
    });
}
