// Fold and unfold: a block of threads per token, whose heads change places with one another and with the rows of
// other sequences; whole heads stay together. The logsumexp, so small that its strided writes stay in the cache.
#include "kernels/cuda/plugin/attention_blocks.h"
#include "kernels/cuda/plugin/element.cuh"
#include "kernels/cuda/plugin/launch.cuh"

namespace
{

constexpr int THREADS = 256;
using bf16 = __nv_bfloat16;

struct folding {
    unsigned batch, kv_heads, group, head_dim;

    __device__ unsigned cols() const { return kv_heads * group * head_dim; }
    // Where column `col` of row `row` is, folded.
    __device__ size_t at(size_t row, unsigned col) const
    {
        unsigned head = col / head_dim, g = head / group, j = head % group;
        size_t t = row / batch, b = row % batch;
        return ((t * group + j) * batch + b) * kv_heads * head_dim + g * head_dim + col % head_dim;
    }
};

// Block (r, i): row r of tensor i.
template <int N>
__global__ void fold(bf16 *to0, const bf16 *from0, bf16 *to1, const bf16 *from1, bf16 *to2, const bf16 *from2,
                     folding f)
{
    bf16 *to = blockIdx.y == 0 ? to0 : blockIdx.y == 1 ? to1 : to2;
    const bf16 *from = blockIdx.y == 0 ? from0 : blockIdx.y == 1 ? from1 : from2;
    for (unsigned col = threadIdx.x * N; col < f.cols(); col += blockDim.x * N) {
        float x[N];
        read(x, from + (size_t)blockIdx.x * f.cols() + col);
        write(to + f.at(blockIdx.x, col), x);
    }
}

// Block r: row r.
template <int N> __global__ void unfold(bf16 *to, bool accumulate, const float *sum, const bf16 *x, folding f)
{
    for (unsigned col = threadIdx.x * N; col < f.cols(); col += blockDim.x * N) {
        size_t i = (size_t)blockIdx.x * f.cols() + col;
        float a[N], b[N] = {}, before[N] = {};
        read(a, sum + f.at(blockIdx.x, col));
        if (x)
            read(b, x + i);
        if (accumulate)
            read(before, to + i);
#pragma unroll
        for (int j = 0; j < N; j++)
            a[j] += b[j] + before[j];
        write(to + i, a);
    }
}

// Block (., h): head h of every token.
__global__ void fold_logsumexp(float *to, const float *from, size_t rows, folding f)
{
    size_t row = blockIdx.x * (size_t)THREADS + threadIdx.x, queries = rows / f.batch;
    unsigned g = blockIdx.y / f.group, j = blockIdx.y % f.group;
    float x[1];
    if (row < rows) {
        read(x, from + row * f.kv_heads * f.group + blockIdx.y);
        write(to + ((row % f.batch * f.kv_heads + g) * queries + row / f.batch) * f.group + j, x);
    }
}

folding folding_of(struct attention_shape s)
{
    return {(unsigned)s.batch, (unsigned)s.kv_heads, (unsigned)(s.heads / s.kv_heads), (unsigned)s.head_dim};
}

// Vectors of heads that are as long as that many elements of bf16.
template <class Body> void with_lanes(bool vector, Body body)
{
    if (vector)
        body(std::integral_constant<int, LANES<bf16>>{});
    else
        body(std::integral_constant<int, 1>{});
}

} // namespace

void cuda_fold(struct device *device, const struct tensor to[3], const struct tensor from[3],
               struct attention_shape shape)
{
    with_lanes(
        aligned(LANES<bf16>, shape.head_dim, to[0], to[1], to[2], from[0], from[1], from[2]), [&](auto lanes) {
            launch(fold<decltype(lanes)::value>, dim3(shape.queries * shape.batch, 3), THREADS, 0, device,
                   (bf16 *)to[0].data, (const bf16 *)from[0].data, (bf16 *)to[1].data, (const bf16 *)from[1].data,
                   (bf16 *)to[2].data, (const bf16 *)from[2].data, folding_of(shape));
        });
}

void cuda_unfold(struct device *device, struct tensor to, bool accumulate, struct tensor sum, struct tensor x,
                 struct attention_shape shape)
{
    with_lanes(aligned(LANES<bf16>, shape.head_dim, to, sum, x), [&](auto lanes) {
        launch(unfold<decltype(lanes)::value>, dim3(shape.queries * shape.batch), THREADS, 0, device,
               (bf16 *)to.data, accumulate, (const float *)sum.data, (const bf16 *)x.data, folding_of(shape));
    });
}

void cuda_fold_logsumexp(struct device *device, struct tensor to, struct tensor from, struct attention_shape shape)
{
    size_t rows = shape.queries * shape.batch;
    launch(fold_logsumexp, dim3(ceil_div(rows, THREADS), shape.heads), THREADS, 0, device, (float *)to.data,
           (const float *)from.data, rows, folding_of(shape));
}
