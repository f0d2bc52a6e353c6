// SwiGLU and GeGLU (Shazeer 2020): y = act(gate) * up, act(g) = g * sigma(z), sigma(z) = 1 / (1 + exp(-z)), z as in
// kernels/device/device.h. Backward, in place: grad_gate = grad_y * up * sigma * (1 + g * z' * (1 - sigma)),
// grad_up = grad_y * act(gate), and grad_y becomes y.
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"

namespace
{

constexpr int THREADS = 256;

// z and its derivative.
template <class A> struct silu {
    static __device__ A argument(A g) { return g; }
    static __device__ A slope(A) { return A(1); }
};
template <class A> struct gelu_tanh {
    static constexpr double LINEAR = 1.5957691216057308, CUBIC = 0.044715; // 2 sqrt(2 / pi)
    static __device__ A argument(A g) { return A(LINEAR) * (g + A(CUBIC) * g * g * g); }
    static __device__ A slope(A g) { return A(LINEAR) * (A(1) + A(3 * CUBIC) * g * g); }
};

template <int N, class T, template <class> class Act>
__global__ void forward(T *y, const T *gate, const T *up, size_t count)
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
        u[j] *= g[j] / (A(1) + exp(-Act<A>::argument(g[j])));
    write(y + i, u, count - i);
}

template <int N, class T, template <class> class Act>
__global__ void backward(T *gate, T *up, T *grad_y, size_t count)
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
        A sigma = A(1) / (A(1) + exp(-Act<A>::argument(g[j]))), act = g[j] * sigma, product = act * u[j];
        g[j] = y[j] * u[j] * (sigma * (A(1) + g[j] * Act<A>::slope(g[j]) * (A(1) - sigma)));
        u[j] = y[j] * act;
        y[j] = product;
    }
    write(gate + i, g, count - i);
    write(up + i, u, count - i);
    write(grad_y + i, y, count - i);
}

template <template <class> class Act>
void launch_forward(struct device *device, struct tensor y, struct tensor gate, struct tensor up)
{
    size_t count = tensor_count(y);
    with_type(y.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        constexpr int N = LANES<T>;
        bool vector = aligned(1, count, y, gate, up);
        launch(vector ? forward<N, T, Act> : forward<1, T, Act>, dim3(ceil_div(count, THREADS * (vector ? N : 1))),
               THREADS, 0, device, (T *)y.data, (const T *)gate.data, (const T *)up.data, count);
    });
}

template <template <class> class Act>
void launch_backward(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y)
{
    size_t count = tensor_count(grad_y);
    with_type(grad_y.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        constexpr int N = LANES<T>;
        bool vector = aligned(1, count, gate, up, grad_y);
        launch(vector ? backward<N, T, Act> : backward<1, T, Act>,
               dim3(ceil_div(count, THREADS * (vector ? N : 1))), THREADS, 0, device, (T *)gate.data, (T *)up.data,
               (T *)grad_y.data, count);
    });
}

} // namespace

void cuda_swiglu_forward(struct device *device, struct tensor y, struct tensor gate, struct tensor up,
                         enum activation activation)
{
    if (activation == ACTIVATION_SILU)
        launch_forward<silu>(device, y, gate, up);
    else
        launch_forward<gelu_tanh>(device, y, gate, up);
}

void cuda_swiglu_backward(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y,
                          enum activation activation)
{
    if (activation == ACTIVATION_SILU)
        launch_backward<silu>(device, gate, up, grad_y);
    else
        launch_backward<gelu_tanh>(device, gate, up, grad_y);
}
