// SwiGLU (Shazeer 2020): y = silu(gate) * up, silu(g) = g * sigma(g), sigma(g) = 1 / (1 + exp(-g)).
// Backward, in place: grad_gate = grad_y * up * sigma * (1 + g * (1 - sigma)), grad_up = grad_y * silu(gate),
// and grad_y becomes y.
#include "kernels/cuda/plugin/element.cuh"
#include "kernels/cuda/plugin/launch.cuh"

namespace
{

constexpr int THREADS = 256;

template <int N, class T> __global__ void forward(T *y, const T *gate, const T *up, size_t count)
{
    using A = wide_t<T>;
    size_t i = first_element<N>();
    if (i >= count)
        return;
    A g[N], u[N];
    read(g, gate + i, count - i);
    read(u, up + i, count - i);
#pragma unroll
    for (int j = 0; j < N; j++)
        u[j] *= g[j] / (A(1) + exp(-g[j]));
    write(y + i, u, count - i);
}

template <int N, class T> __global__ void backward(T *gate, T *up, T *grad_y, size_t count)
{
    using A = wide_t<T>;
    size_t i = first_element<N>();
    if (i >= count)
        return;
    A g[N], u[N], y[N];
    read(g, gate + i, count - i);
    read(u, up + i, count - i);
    read(y, grad_y + i, count - i);
#pragma unroll
    for (int j = 0; j < N; j++) {
        A sigma = A(1) / (A(1) + exp(-g[j])), silu = g[j] * sigma, product = silu * u[j];
        g[j] = y[j] * u[j] * (sigma * (A(1) + g[j] * (A(1) - sigma)));
        u[j] = y[j] * silu;
        y[j] = product;
    }
    write(gate + i, g, count - i);
    write(up + i, u, count - i);
    write(grad_y + i, y, count - i);
}

} // namespace

void cuda_swiglu_forward(struct device *device, struct tensor y, struct tensor gate, struct tensor up)
{
    size_t count = tensor_count(y);
    with_type(y.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        constexpr int N = LANES<T>;
        bool vector = aligned(1, count, y, gate, up);
        launch(vector ? forward<N, T> : forward<1, T>, dim3(ceil_div(count, THREADS * (vector ? N : 1))), THREADS,
               0, device, (T *)y.data, (const T *)gate.data, (const T *)up.data, count);
    });
}

void cuda_swiglu_backward(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y)
{
    size_t count = tensor_count(grad_y);
    with_type(grad_y.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        constexpr int N = LANES<T>;
        bool vector = aligned(1, count, gate, up, grad_y);
        launch(vector ? backward<N, T> : backward<1, T>, dim3(ceil_div(count, THREADS * (vector ? N : 1))), THREADS,
               0, device, (T *)gate.data, (T *)up.data, (T *)grad_y.data, count);
    });
}
