// Combines attention over two sets of keys by their logsumexps.
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"

namespace
{

constexpr int THREADS = 256, WARPS = THREADS / 32;

// A warp per head of a row.
template <class T, class A = wide_t<T>>
__global__ void merge(T *o, A *logsumexp, const T *other_o, const A *other_logsumexp, size_t heads, unsigned dim)
{
    size_t step = (size_t)gridDim.x * WARPS;
    for (size_t head = blockIdx.x * (size_t)WARPS + threadIdx.x / 32; head < heads; head += step) {
        A a = logsumexp[head], b = other_logsumexp[head], largest = a > b ? a : b;
        A m = largest + log1p(exp((a > b ? b : a) - largest)), factor = exp(a - m), other_factor = exp(b - m);
        __syncwarp(); // all lanes have read the logsumexp
        for (size_t d = head * dim + threadIdx.x % 32; d < (head + 1) * dim; d += 32)
            narrow(o[d], factor * widen<A>(o[d]) + other_factor * widen<A>(other_o[d]));
        if (threadIdx.x % 32 == 0)
            logsumexp[head] = m;
    }
}

} // namespace

void cuda_attention_merge(struct device *device, struct tensor o, struct tensor logsumexp, struct tensor other_o,
                          struct tensor other_logsumexp)
{
    size_t heads = tensor_count(logsumexp);
    with_type(o.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        launch(merge<T>, blocks_for(heads, WARPS), THREADS, 0, device, (T *)o.data, (A *)logsumexp.data,
               (const T *)other_o.data, (const A *)other_logsumexp.data, heads,
               heads ? (unsigned)(tensor_count(o) / heads) : 0);
    });
}
