// Cross-entropy on a block of logits, and its gradient in place.
//   loss += loss_weight * sum over rows with a target of (logsumexp - logits[target]), in f64
//   logits = grad_weight * (softmax - onehot(target)); 0 for rows without a target
// With a cap both are of the capped logits, which are computed where the logits are read.
// The first pass over a row keeps a running maximum and sum, the second writes the gradient. Each block adds its
// rows' losses into scratch; the blocks' sums are then added in order.
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/softmax.cuh"

namespace
{

constexpr int WARPS = 16, THREADS = 32 * WARPS;
constexpr size_t BLOCKS = 1024; // maximum: bounds the scratch

// partial: [blocks]. Block b takes rows b, b + blocks, ...
template <int N, class T>
__global__ void __launch_bounds__(THREADS) gradient(T *logits, double *partial, const int32_t *targets,
                                                    wide_t<T> grad_weight, wide_t<T> cap, size_t rows, size_t cols)
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
        softmax<A> all = thread_softmax<N, THREADS>(row, cols, cap);
        A at_target = capped(widen<A>(row[target]), cap); // all threads read it before any writes: block_join waits
        all = block_join<WARPS>(all);
        if (threadIdx.x == 0) // an f64 logarithm is slow on cards with few f64 units
            loss += log((double)all.sum) + ((double)all.largest - (double)at_target);
        A factor = grad_weight / all.sum;
        for (size_t j = first; j < cols; j += THREADS * N) {
            read_logits(x, row + j, cap);
#pragma unroll
            for (int i = 0; i < N; i++) {
                A slope = cap_slope(x[i], cap);
                x[i] = factor * exp(x[i] - all.largest);
                x[i] -= j + i == (size_t)target ? grad_weight : A(0);
                x[i] *= slope;
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

void cuda_cross_entropy(struct device *device, struct tensor logits, struct tensor targets, struct tensor loss,
                        double loss_weight, double grad_weight, double cap)
{
    static_assert(BLOCKS * sizeof(double) <= CUDA_SCRATCH_BYTES, "the blocks' sums fit into scratch");
    size_t blocks = logits.rows < BLOCKS ? logits.rows : BLOCKS;
    if (blocks == 0)
        return;
    with_type(logits.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        launch(aligned(LANES<T>, logits.cols, logits) ? gradient<LANES<T>, T> : gradient<1, T>, dim3(blocks),
               THREADS, 0, device, (T *)logits.data, (double *)cuda_workspace(device, cuda_stream(device)),
               (const int32_t *)targets.data, grad_weight, cap, logits.rows, logits.cols);
    });
    launch(add_losses, dim3(1), 32, 0, device, (double *)loss.data,
           (const double *)cuda_workspace(device, cuda_stream(device)), loss_weight, blocks);
}
