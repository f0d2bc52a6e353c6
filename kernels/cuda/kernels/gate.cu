// Gated output (Qwen3-Next): y = x s, s = 1 / (1 + exp(-gate)); grad_x = grad_y s, and gate becomes its gradient,
// grad_y x s (1 - s).
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"

namespace
{

constexpr int THREADS = 256;

template <int N, class T> __global__ void forward(T *y, const T *x, const T *gate, size_t count)
{
    using A = wide_t<T>;
    size_t i = first_element<N>();
    if (i >= count)
        return;
    A a[N], g[N];
    read(a, x + i, count - i);
    read(g, gate + i, count - i);
#pragma unroll
    for (int j = 0; j < N; j++)
        a[j] /= A(1) + exp(-g[j]);
    write(y + i, a, count - i);
}

template <int N, class T> __global__ void backward(T *grad_x, T *gate, const T *grad_y, const T *x, size_t count)
{
    using A = wide_t<T>;
    size_t i = first_element<N>();
    if (i >= count)
        return;
    A a[N], g[N], grad[N];
    read(a, x + i, count - i);
    read(g, gate + i, count - i);
    read(grad, grad_y + i, count - i);
#pragma unroll
    for (int j = 0; j < N; j++) {
        // 1 - s by itself: where s rounds to 1 its gradient is not yet 0.
        A e = exp(-fabs(g[j])), large = A(1) / (A(1) + e), small = e / (A(1) + e);
        A s = g[j] < A(0) ? small : large;
        g[j] = grad[j] * a[j] * large * small;
        grad[j] *= s;
    }
    write(gate + i, g, count - i);
    write(grad_x + i, grad, count - i);
}

} // namespace

void cuda_gate_forward(struct device *device, struct tensor y, struct tensor x, struct tensor gate)
{
    size_t count = tensor_count(y);
    with_type(y.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        with_lanes<LANES<T>>(aligned(1, count, y, x, gate), [&](auto lanes) {
            launch(forward<lanes.value, T>, dim3(ceil_div(count, THREADS * lanes.value)), THREADS, 0, device,
                   (T *)y.data, (const T *)x.data, (const T *)gate.data, count);
        });
    });
}

void cuda_gate_backward(struct device *device, struct tensor grad_x, struct tensor gate, struct tensor grad_y,
                        struct tensor x)
{
    size_t count = tensor_count(grad_x);
    with_type(grad_x.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        with_lanes<LANES<T>>(aligned(1, count, grad_x, gate, grad_y, x), [&](auto lanes) {
            launch(backward<lanes.value, T>, dim3(ceil_div(count, THREADS * lanes.value)), THREADS, 0, device,
                   (T *)grad_x.data, (T *)gate.data, (const T *)grad_y.data, (const T *)x.data, count);
        });
    });
}
