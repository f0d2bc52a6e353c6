// Accumulate: dst += src, one pass: 16-byte accesses where the addresses allow.
// Transpose: of a block's logsumexp, so small that its strided reads stay in the cache.
#include "kernels/cuda/attention_blocks.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

namespace
{

constexpr int THREADS = 256;

template <int N, class D, class S> __global__ void accumulate(D *dst, const S *src, size_t count)
{
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        wide_t<D> sum[N], x[N];
        read(sum, dst + i, count - i);
        read(x, src + i, count - i);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += x[j];
        write(dst + i, sum, count - i);
    }
}

__global__ void transposed(float *dst, const float *src, size_t rows, size_t cols)
{
    size_t row = blockIdx.x * (size_t)THREADS + threadIdx.x;
    if (row < rows)
        dst[blockIdx.y * rows + row] = src[row * cols + blockIdx.y];
}

} // namespace

void cuda_transpose(struct tensor dst, struct tensor src, cudaStream_t stream)
{
    CHECK(src.dtype == DTYPE_F32 && dst.dtype == DTYPE_F32 && dst.rows == src.cols && dst.cols == src.rows);
    launch(transposed, dim3(ceil_div(src.rows, THREADS), src.cols), THREADS, 0, stream, (float *)dst.data,
           (const float *)src.data, src.rows, src.cols);
}

void cuda_accumulate(struct tensor dst, struct tensor src, cudaStream_t stream)
{
    size_t count = tensor_count(dst);
    with_type(dst.dtype, [&](auto to) {
        with_type(src.dtype, [&](auto from) {
            using D = typename decltype(to)::type;
            using S = typename decltype(from)::type;
            constexpr int N = LANES<D> < LANES<S> ? LANES<D> : LANES<S>;
            bool vector = aligned(1, count, dst, src);
            launch(vector ? accumulate<N, D, S> : accumulate<1, D, S>,
                   blocks_for(count, THREADS * (vector ? N : 1)), THREADS, 0, stream, (D *)dst.data,
                   (const S *)src.data, count);
        });
    });
}
