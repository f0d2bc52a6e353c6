// Gated DeltaNet's gates: decay = -exp(a_log) softplus(a + dt_bias), beta = scale sigmoid(b). Backward: grad_a = s
// = -grad_decay exp(a_log) sigmoid(a + dt_bias), grad_b = grad_beta beta (1 - sigmoid(b)), grad_dt_bias += sums of
// s, grad_a_log += sums of grad_decay decay.
#include "kernels/cuda/kernels/columns.cuh"

namespace
{

constexpr int THREADS = 256;

template <class A> __device__ A softplus(A x)
{
    return (x > A(0) ? x : A(0)) + log1p(exp(x > A(0) ? -x : x));
}
template <class A> __device__ A sigmoid(A x)
{
    return A(1) / (A(1) + exp(-x));
}

// The gates' inputs, per token and head, and per head.
template <class T> struct gates {
    const T *a, *b, *a_log, *dt_bias;
    size_t count, heads;
    using A = wide_t<T>;
    __device__ A rate(size_t i) const { return exp(widen<A>(a_log[i % heads])); }
    __device__ A sum(size_t i) const { return widen<A>(a[i]) + widen<A>(dt_bias[i % heads]); }
};

template <class T> __global__ void forward(wide_t<T> *decay, wide_t<T> *beta, gates<T> g, wide_t<T> scale)
{
    using A = wide_t<T>;
    size_t i = first_element<1>();
    if (i >= g.count)
        return;
    decay[i] = -g.rate(i) * softplus(g.sum(i));
    beta[i] = scale * sigmoid(widen<A>(g.b[i]));
}

template <class T>
__global__ void backward(T *grad_a, T *grad_b, const wide_t<T> *grad_decay, const wide_t<T> *grad_beta, gates<T> g,
                         wide_t<T> scale)
{
    using A = wide_t<T>;
    size_t i = first_element<1>();
    if (i >= g.count)
        return;
    A sigma = sigmoid(widen<A>(g.b[i])), slope = -g.rate(i) * grad_decay[i] * sigmoid(g.sum(i));
    narrow(grad_a[i], slope);
    narrow(grad_b[i], grad_beta[i] * scale * sigma * (A(1) - sigma));
}

template <bool LOG, class T> struct head_gradient {
    gates<T> g;
    const wide_t<T> *grad_decay;
    __device__ void add(wide_t<T> (&sum)[1], size_t row, size_t head) const
    {
        size_t i = row * g.heads + head;
        sum[0] -= g.rate(i) * grad_decay[i] * (LOG ? softplus(g.sum(i)) : sigmoid(g.sum(i)));
    }
};

template <class T> gates<T> gates_of(struct tensor a, struct tensor b, struct tensor a_log, struct tensor dt_bias)
{
    return {(const T *)a.data,       (const T *)b.data, (const T *)a_log.data,
            (const T *)dt_bias.data, tensor_count(a),   a.cols};
}

} // namespace

void cuda_delta_gates_forward(struct device *device, struct tensor decay, struct tensor beta, struct tensor a,
                              struct tensor b, struct tensor a_log, struct tensor dt_bias, double scale)
{
    with_type(a.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        launch(forward<T>, dim3(ceil_div(tensor_count(a), THREADS)), THREADS, 0, device, (A *)decay.data,
               (A *)beta.data, gates_of<T>(a, b, a_log, dt_bias), (A)scale);
    });
}

void cuda_delta_gates_backward(struct device *device, struct tensor grad_a, struct tensor grad_b,
                               struct tensor grad_a_log, struct tensor grad_dt_bias, struct tensor grad_decay,
                               struct tensor grad_beta, struct tensor a, struct tensor b, struct tensor a_log,
                               struct tensor dt_bias, double scale)
{
    with_type(a.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        gates<T> g = gates_of<T>(a, b, a_log, dt_bias);
        const A *of_decay = (const A *)grad_decay.data;
        // First, because grad_a may be a.
        if (grad_a_log.data) {
            column_sums<1, T>(device, grad_a_log, head_gradient<true, T>{g, of_decay}, a.dtype, a.rows);
            column_sums<1, T>(device, grad_dt_bias, head_gradient<false, T>{g, of_decay}, a.dtype, a.rows);
        }
        launch(backward<T>, dim3(ceil_div(g.count, THREADS)), THREADS, 0, device, (T *)grad_a.data,
               (T *)grad_b.data, of_decay, (const A *)grad_beta.data, g, (A)scale);
    });
}
