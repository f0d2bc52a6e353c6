// SwiGLU and GeGLU (Shazeer 2020): y = act(gate) * up, act(g) = g * sigma(z), sigma(z) = 1 / (1 + exp(-z)), z as in
// kernels/device/device.h. Backward, in place: grad_gate = grad_y * up * sigma * (1 + g * z' * (1 - sigma)),
// grad_up = grad_y * act(gate), and grad_y becomes y. The same of experts' rows, a warp each, where gate and up
// lie side by side.
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

template <int N, class T, class Act> __global__ void forward(T *y, const T *gate, const T *up, size_t count)
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
        u[j] *= g[j] / (A(1) + exp(-Act::argument(g[j])));
    write(y + i, u, count - i);
}

// g and u become their gradients, that of y being grad; returns y.
template <class Act, class A> __device__ A gradients(A &g, A &u, A grad)
{
    A sigma = A(1) / (A(1) + exp(-Act::argument(g))), act = g * sigma, product = act * u;
    g = grad * u * (sigma * (A(1) + g * Act::slope(g) * (A(1) - sigma)));
    u = grad * act;
    return product;
}

template <int N, class T, class Act> __global__ void backward(T *gate, T *up, T *grad_y, size_t count)
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
    for (int j = 0; j < N; j++)
        y[j] = gradients<Act>(g[j], u[j], y[j]);
    write(gate + i, g, count - i);
    write(up + i, u, count - i);
    write(grad_y + i, y, count - i);
}

// Experts' products: of a gate and an up, and their gradients in place.
template <class A, class Act> struct plain {
    plain(struct expert_act) {}
    __device__ A product(A g, A u) const { return g / (A(1) + exp(-Act::argument(g))) * u; }
    __device__ A backward(A &g, A &u, A grad) const { return gradients<Act>(g, u, grad); }
};
template <class A> struct clamped {
    A alpha, limit;
    clamped(struct expert_act act) : alpha((A)act.alpha), limit((A)act.limit) {}
    __device__ A within(A u) const { return u > limit ? limit : u < -limit ? -limit : u; }
    __device__ A product(A g, A u) const
    {
        g = g > limit ? limit : g;
        return (within(u) + A(1)) * g / (A(1) + exp(-alpha * g));
    }
    __device__ A backward(A &gate, A &up, A grad) const
    {
        A g = gate > limit ? limit : gate, u = within(up);
        A sigma = A(1) / (A(1) + exp(-alpha * g)), act = g * sigma;
        gate = gate > limit ? A(0) : grad * (u + A(1)) * (sigma + alpha * act * (A(1) - sigma));
        up = up > limit || up < -limit ? A(0) : grad * act;
        return (u + A(1)) * act;
    }
};

// Experts' rows, a warp each.
constexpr int ROWS = THREADS / 32;

template <int N, class T, class Product>
__global__ void expert_forward(T *y, const T *gate_up, size_t rows, size_t f, Product act)
{
    using A = wide_t<T>;
    size_t row = blockIdx.x * (size_t)ROWS + threadIdx.x / 32;
    if (row >= rows)
        return;
    const T *gate = gate_up + row * 2 * f, *up = gate + f;
    for (size_t i = threadIdx.x % 32 * N; i < f; i += 32 * N) {
        A g[N], u[N];
        read(g, gate + i);
        read(u, up + i);
#pragma unroll
        for (int j = 0; j < N; j++)
            u[j] = act.product(g[j], u[j]);
        write(y + row * f + i, u);
    }
}

template <int N, class T, class Product>
__global__ void expert_backward(T *gate_up, T *grads, wide_t<T> *grad_weights, const wide_t<T> *weights,
                                const int32_t *slots, size_t rows, size_t f, Product act)
{
    using A = wide_t<T>;
    size_t row = blockIdx.x * (size_t)ROWS + threadIdx.x / 32;
    if (row >= rows)
        return;
    T *gate = gate_up + row * 2 * f, *up = gate + f, *v = grads + row * f;
    A weight = weights[slots[row]], dot = 0;
    for (size_t i = threadIdx.x % 32 * N; i < f; i += 32 * N) {
        A g[N], u[N], grad[N];
        read(g, gate + i);
        read(u, up + i);
        read(grad, v + i);
#pragma unroll
        for (int j = 0; j < N; j++) {
            A y = act.backward(g[j], u[j], weight * grad[j]);
            dot += grad[j] * y;
            grad[j] = weight * y;
        }
        write(gate + i, g);
        write(up + i, u);
        write(v + i, grad);
    }
    dot = warp_sum(dot);
    if (threadIdx.x % 32 == 0)
        grad_weights[slots[row]] = dot;
}

// body(type_of<T>, N, an activation): N elements to a thread.
template <class Body> void with_shape(enum dtype dtype, enum activation activation, bool vector, Body body)
{
    with_type(dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        auto with_activation = [&](auto lanes) {
            if (activation == ACTIVATION_SILU)
                body(type, lanes, silu<wide_t<T>>{});
            else
                body(type, lanes, gelu_tanh<wide_t<T>>{});
        };
        with_lanes<LANES<T>>(vector, with_activation);
    });
}

// body(type_of<T>, N, what an expert multiplies)
template <class Body> void with_product(enum dtype dtype, struct expert_act act, bool vector, Body body)
{
    if (act.alpha > 0) {
        with_type(dtype, [&](auto type) {
            using T = typename decltype(type)::type;
            with_lanes<LANES<T>>(vector, [&](auto lanes) { body(type, lanes, clamped<wide_t<T>>(act)); });
        });
    } else {
        with_shape(dtype, act.activation, vector, [&](auto type, auto lanes, auto activation) {
            body(type, lanes, plain<wide_t<typename decltype(type)::type>, decltype(activation)>(act));
        });
    }
}

} // namespace

void cuda_swiglu_forward(struct device *device, struct tensor y, struct tensor gate, struct tensor up,
                         enum activation activation)
{
    size_t count = tensor_count(y);
    with_shape(y.dtype, activation, aligned(1, count, y, gate, up), [&](auto type, auto lanes, auto act) {
        using T = typename decltype(type)::type;
        launch(forward<lanes.value, T, decltype(act)>, dim3(ceil_div(count, THREADS * lanes.value)), THREADS, 0,
               device, (T *)y.data, (const T *)gate.data, (const T *)up.data, count);
    });
}

void cuda_swiglu_backward(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y,
                          enum activation activation)
{
    size_t count = tensor_count(grad_y);
    with_shape(grad_y.dtype, activation, aligned(1, count, gate, up, grad_y), [&](auto type, auto lanes, auto act) {
        using T = typename decltype(type)::type;
        launch(backward<lanes.value, T, decltype(act)>, dim3(ceil_div(count, THREADS * lanes.value)), THREADS, 0,
               device, (T *)gate.data, (T *)up.data, (T *)grad_y.data, count);
    });
}

void cuda_expert_act_forward(struct device *device, struct tensor y, struct tensor gate_up, struct expert_act act)
{
    bool words = aligned(16 / dtype_bytes(y.dtype), y.cols, y, gate_up);
    with_product(y.dtype, act, words, [&](auto type, auto lanes, auto product) {
        using T = typename decltype(type)::type;
        launch(expert_forward<lanes.value, T, decltype(product)>, dim3(ceil_div(y.rows, ROWS)), THREADS, 0, device,
               (T *)y.data, (const T *)gate_up.data, y.rows, y.cols, product);
    });
}

void cuda_expert_act_backward(struct device *device, struct tensor gate_up, struct tensor grad,
                              struct tensor grad_weights, struct tensor weights, struct tensor slots, size_t first,
                              struct expert_act act)
{
    bool words = aligned(16 / dtype_bytes(grad.dtype), grad.cols, grad, gate_up);
    with_product(grad.dtype, act, words, [&](auto type, auto lanes, auto product) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        launch(expert_backward<lanes.value, T, decltype(product)>, dim3(ceil_div(grad.rows, ROWS)), THREADS, 0,
               device, (T *)gate_up.data, (T *)grad.data, (A *)grad_weights.data, (const A *)weights.data,
               (const int32_t *)slots.data + first, grad.rows, grad.cols, product);
    });
}
