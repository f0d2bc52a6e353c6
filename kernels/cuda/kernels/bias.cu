// Bias:  y += bias, for every row;  grad_bias += column sums of grad_y.
#include "kernels/cuda/kernels/columns.cuh"

namespace
{

constexpr int THREADS = 256;

template <int N, class T> __global__ void forward(T *y, const T *bias, size_t cols)
{
    size_t column = (blockIdx.y * (size_t)THREADS + threadIdx.x) * N;
    if (column >= cols)
        return;
    wide_t<T> x[N], b[N];
    T *at = y + blockIdx.x * cols + column;
    read(x, at);
    read(b, bias + column);
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] += b[i];
    write(at, x);
}

template <int N, class T> struct gradient {
    const T *grad_y;
    size_t cols;
    __device__ void add(wide_t<T> (&sum)[N], size_t row, size_t column) const
    {
        wide_t<T> g[N];
        read(g, grad_y + row * cols + column);
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] += g[i];
    }
};

} // namespace

void cuda_bias_forward(struct device *device, struct tensor y, struct tensor bias)
{
    with_type(y.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        constexpr int N = LANES<T>;
        bool vector = aligned(N, y.cols, y, bias);
        launch(vector ? forward<N, T> : forward<1, T>, dim3(y.rows, ceil_div(y.cols, THREADS * (vector ? N : 1))),
               THREADS, 0, device, (T *)y.data, (const T *)bias.data, y.cols);
    });
}

void cuda_bias_backward(struct device *device, struct tensor grad_bias, struct tensor grad_y)
{
    with_type(grad_y.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        with_lanes<LANES<T>>(aligned(LANES<T>, grad_y.cols, grad_y), [&](auto lanes) {
            const gradient<lanes.value, T> term = {(const T *)grad_y.data, grad_y.cols};
            column_sums<lanes.value, T>(device, grad_bias, term, grad_y.dtype, grad_y.rows);
        });
    });
}
