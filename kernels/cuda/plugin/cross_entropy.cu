// Cross-entropy on a block of logits, and its gradient in place.
//   loss += loss_weight * sum over rows with a target of (logsumexp - logits[target]), in f64
//   logits = grad_weight * (softmax - onehot(target)); 0 for rows without a target
// The first look at a row keeps a running maximum and sum, the second writes the gradient. Each block adds the
// losses of its rows and leaves the sum in scratch; the blocks' sums are then added in their order.
#include "kernels/cuda/plugin/element.cuh"
#include "kernels/cuda/plugin/launch.cuh"
#include <cfloat>

namespace
{

constexpr int WARPS = 16, THREADS = 32 * WARPS;
constexpr size_t BLOCKS = 1024; // at most: bounds the scratch

// A set of logits: its largest, and the sum of exp(logit - largest).
template <class A> struct softmax {
    A largest, sum;
};

// Of two sets. Of none: the lowest number, whose exp(lowest - largest) is 0.
template <class A> __device__ softmax<A> join(softmax<A> a, softmax<A> b)
{
    A largest = a.largest > b.largest ? a.largest : b.largest;
    return {largest, a.sum * exp(a.largest - largest) + b.sum * exp(b.largest - largest)};
}

template <class A> __device__ softmax<A> block_join(softmax<A> x)
{
    __shared__ softmax<A> parts[WARPS];
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x = join(x, softmax<A>{__shfl_xor_sync(0xffffffffu, x.largest, lanes),
                               __shfl_xor_sync(0xffffffffu, x.sum, lanes)});
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
#pragma unroll
    for (int i = 1; i < WARPS; i++)
        x = join(x, parts[i]);
    __syncthreads(); // before the next row's parts
    return x;
}

template <class A> __device__ A lowest()
{
    return sizeof(A) == 8 ? (A)-DBL_MAX : (A)-FLT_MAX;
}

// partial: [blocks]. Block b takes rows b, b + blocks, ...
template <int N, class T>
__global__ void __launch_bounds__(THREADS)
    gradient(T *logits, double *partial, const int32_t *targets, wide_t<T> grad_weight, size_t rows, size_t cols)
{
    using A = wide_t<T>;
    double loss = 0;
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        T *row = logits + r * cols;
        int32_t target = targets[r];
        size_t first = threadIdx.x * N;
        A x[N];
        if (target < 0) {
#pragma unroll
            for (int i = 0; i < N; i++)
                x[i] = 0;
            for (size_t j = first; j < cols; j += THREADS * N)
                write(row + j, x);
            continue;
        }
        softmax<A> all = {lowest<A>(), 0};
        for (size_t j = first; j < cols; j += THREADS * N) {
            read(x, row + j);
            softmax<A> these = {x[0], 0};
#pragma unroll
            for (int i = 1; i < N; i++)
                these.largest = x[i] > these.largest ? x[i] : these.largest;
            these.largest = these.largest > all.largest ? these.largest : all.largest;
#pragma unroll
            for (int i = 0; i < N; i++)
                these.sum += exp(x[i] - these.largest);
            all = {these.largest, all.sum * exp(all.largest - these.largest) + these.sum};
        }
        A at_target = widen<A>(row[target]); // read by all before any writes: block_join waits
        all = block_join(all);
        loss += log((double)all.sum) + ((double)all.largest - (double)at_target);
        A factor = grad_weight / all.sum;
        for (size_t j = first; j < cols; j += THREADS * N) {
            read(x, row + j);
#pragma unroll
            for (int i = 0; i < N; i++) {
                x[i] = factor * exp(x[i] - all.largest);
                x[i] -= j + i == (size_t)target ? grad_weight : A(0);
            }
            write(row + j, x);
        }
    }
    if (threadIdx.x == 0)
        partial[blockIdx.x] = loss;
}

// One warp.
__global__ void add_losses(double *loss, const double *partial, double weight, size_t count)
{
    double sum = 0;
    for (size_t i = threadIdx.x; i < count; i += 32)
        sum += partial[i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0)
        *loss += weight * sum;
}

} // namespace

void cuda_cross_entropy(struct tensor logits, struct tensor loss, struct tensor targets, double loss_weight,
                        double grad_weight, void *scratch, cudaStream_t stream)
{
    static_assert(BLOCKS * sizeof(double) <= CUDA_SCRATCH_BYTES, "the blocks' sums fit into scratch");
    size_t blocks = logits.rows < BLOCKS ? logits.rows : BLOCKS;
    if (blocks == 0)
        return;
    with_type(logits.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        launch(aligned(LANES<T>, logits.cols, logits) ? gradient<LANES<T>, T> : gradient<1, T>, dim3(blocks),
               THREADS, 0, stream, (T *)logits.data, (double *)scratch, (const int32_t *)targets.data, grad_weight,
               logits.rows, logits.cols);
    });
    launch(add_losses, dim3(1), 32, 0, stream, (double *)loss.data, (const double *)scratch, loss_weight, blocks);
}
