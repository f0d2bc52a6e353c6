// A sink of each head in attention's softmax: o *= exp(logsumexp - m), logsumexp = m = log(exp(logsumexp) +
// exp(sink));  grad_sinks -= sum over rows of exp(sink - logsumexp) rowsum(grad_o * o), in two passes of fixed
// order.
#include "kernels/cuda/kernels/columns.cuh"
#include <algorithm>

namespace
{

constexpr int WARPS = 8, THREADS = 32 * WARPS;
constexpr size_t BLOCKS = 2048; // that fill a card

// Block r: row r, a warp per head.
template <int N, class T, class A = wide_t<T>>
__global__ void forward(T *o, A *logsumexp, const T *sinks, unsigned heads, unsigned head_dim)
{
    for (unsigned h = threadIdx.x / 32; h < heads; h += WARPS) {
        size_t head = (size_t)blockIdx.x * heads + h;
        A a = logsumexp[head], sink = widen<A>(sinks[h]);
        A m = (a > sink ? a : sink) + log1p(exp(-fabs(a - sink))), factor = exp(a - m);
        __syncwarp(); // all lanes have read the logsumexp
        for (unsigned d = threadIdx.x % 32 * N; d < head_dim; d += 32 * N) {
            A x[N];
            read(x, o + head * head_dim + d);
#pragma unroll
            for (int i = 0; i < N; i++)
                x[i] *= factor;
            write(o + head * head_dim + d, x);
        }
        if (threadIdx.x % 32 == 0) {
            MOVED(2 * sizeof(A) + (blockIdx.x ? 0 : sizeof(T)));
            logsumexp[head] = m;
        }
    }
}

// partial: [slices, heads]. Block (h, y): head h, slice y of the rows; warp w adds rows w, w + WARPS, ... of it.
template <int N, class T, class A = wide_t<T>>
__global__ void __launch_bounds__(THREADS) slices(A *partial, const T *grad_o, const T *o, const A *logsumexp,
                                                  const T *sinks, size_t rows, unsigned head_dim, size_t slice_rows)
{
    __shared__ A sums[WARPS];
    unsigned h = blockIdx.x, heads = gridDim.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    size_t first = blockIdx.y * slice_rows, end = first + slice_rows < rows ? first + slice_rows : rows;
    A sink = widen<A>(sinks[h]), sum = 0;
    for (size_t row = first + warp; row < end; row += WARPS) {
        size_t head = row * heads + h;
        A delta = 0;
        for (unsigned d = lane * N; d < head_dim; d += 32 * N) {
            A x[N], y[N];
            read(x, grad_o + head * head_dim + d);
            read(y, o + head * head_dim + d);
#pragma unroll
            for (int i = 0; i < N; i++)
                delta += x[i] * y[i];
        }
        sum -= exp(sink - logsumexp[head]) * warp_sum(delta);
        if (lane == 0)
            MOVED(sizeof(A));
    }
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int w = 1; w < WARPS; w++)
        sum += sums[w];
    partial[blockIdx.y * heads + h] = sum;
}

} // namespace

void cuda_attention_sink_forward(struct device *device, struct tensor o, struct tensor logsumexp,
                                 struct tensor sinks)
{
    unsigned heads = (unsigned)sinks.cols, head_dim = (unsigned)(o.cols / heads);
    with_type(o.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        with_lanes<LANES<T>>(aligned(LANES<T>, head_dim, o), [&](auto lanes) {
            launch(forward<lanes.value, T>, dim3(o.rows), THREADS, 0, device, (T *)o.data,
                   (wide_t<T> *)logsumexp.data, (const T *)sinks.data, heads, head_dim);
        });
    });
}

void cuda_attention_sink_backward(struct device *device, struct tensor grad_sinks, struct tensor grad_o,
                                  struct tensor o, struct tensor logsumexp, struct tensor sinks)
{
    unsigned heads = (unsigned)sinks.cols, head_dim = (unsigned)(o.cols / heads);
    with_type(o.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        size_t room = CUDA_SCRATCH_BYTES / (heads * sizeof(A)), parts = ceil_div(BLOCKS, heads);
        CHECK(room > 0);
        parts = std::min({parts, room, ceil_div(o.rows, WARPS)});
        if (parts == 0)
            return;
        size_t slice_rows = ceil_div(o.rows, parts);
        parts = ceil_div(o.rows, slice_rows);
        A *partial = (A *)cuda_workspace(device, cuda_stream(device));
        with_lanes<LANES<T>>(aligned(LANES<T>, head_dim, grad_o, o), [&](auto lanes) {
            launch(slices<lanes.value, T>, dim3(heads, parts), THREADS, 0, device, partial, (const T *)grad_o.data,
                   (const T *)o.data, (const A *)logsumexp.data, (const T *)sinks.data, o.rows, head_dim,
                   slice_rows);
        });
        with_accumulator<T>(grad_sinks.dtype, o.dtype, [&](auto sums) {
            using G = typename decltype(sums)::type;
            launch(add_slices<G, A>, dim3(ceil_div(heads, 32)), 32 * COLUMN_WARPS, 0, device, (G *)grad_sinks.data,
                   (const A *)partial, (size_t)heads, parts);
        });
    });
}
