// Log-probs of the targets in a block of logits, what they cost, and the gradient of the logits from that of the
// log-probs.
//   l = logits[target] - logsumexp;  loss += loss_weight * sum of w f(l), in f64;
//   grad = grad_weight * w f'(l);  logits = grad * (onehot(target) - softmax). All 0 for rows without a target.
#include "kernels/cuda/plugin/launch.cuh"
#include "kernels/cuda/plugin/softmax.cuh"

namespace
{

constexpr int WARPS = 16, THREADS = 32 * WARPS;
constexpr size_t BLOCKS = 1024; // at most: a block takes rows b, b + blocks, ...

template <int N, class T>
__global__ void __launch_bounds__(THREADS) log_probs(wide_t<T> *log_prob, wide_t<T> *logsumexp, const T *logits,
                                                     const int32_t *targets, size_t rows, size_t cols)
{
    using A = wide_t<T>;
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const T *row = logits + r * cols;
        int32_t target = targets[r];
        A lse = 0, l = 0;
        if (target >= 0) {
            softmax<A> all = block_join<WARPS>(thread_softmax<N, THREADS>(row, cols));
            double log_sum = log((double)all.sum);
            lse = (A)((double)all.largest + log_sum);
            l = (A)(widen<double>(row[target]) - (double)all.largest - log_sum);
        }
        if (threadIdx.x == 0) {
            logsumexp[r] = lse;
            log_prob[r] = l;
        }
    }
}

// One block: its threads' sums are added in one order. weights NULL: all 1.
template <class A>
__global__ void __launch_bounds__(THREADS)
    objective_rows(A *grad, double *loss, const A *log_prob, const A *weights, const int32_t *targets,
                   enum row_objective objective, double loss_weight, double grad_weight, size_t rows)
{
    double sum = 0;
    for (size_t r = threadIdx.x; r < rows; r += THREADS) {
        double w = targets[r] < 0 ? 0 : weights ? (double)weights[r] : 1;
        struct row_cost cost = row_cost(objective, (double)log_prob[r]);
        sum += w * cost.value;
        grad[r] = (A)(grad_weight * w * cost.slope);
    }
    sum = warps_sum<WARPS>(sum);
    if (threadIdx.x == 0)
        *loss += loss_weight * sum;
}

template <int N, class T>
__global__ void __launch_bounds__(THREADS) gradient(T *logits, const wide_t<T> *logsumexp, const int32_t *targets,
                                                    const wide_t<T> *grad, size_t rows, size_t cols)
{
    using A = wide_t<T>;
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        T *row = logits + r * cols;
        int32_t target = targets[r];
        A lse = logsumexp[r], g = grad[r], x[N];
        for (size_t j = threadIdx.x * N; j < cols; j += THREADS * N) {
            read(x, row + j);
#pragma unroll
            for (int i = 0; i < N; i++) {
                x[i] = target < 0 ? A(0) : -g * exp(x[i] - lse);
                x[i] += target >= 0 && j + i == (size_t)target ? g : A(0);
            }
            write(row + j, x);
        }
    }
}

dim3 blocks_of(size_t rows)
{
    return dim3(rows < BLOCKS ? rows : BLOCKS);
}

} // namespace

void cuda_log_prob(struct device *device, struct tensor log_prob, struct tensor logsumexp, struct tensor logits,
                   struct tensor targets)
{
    with_type(logits.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        launch(aligned(LANES<T>, logits.cols, logits) ? log_probs<LANES<T>, T> : log_probs<1, T>,
               blocks_of(logits.rows), THREADS, 0, device, (A *)log_prob.data, (A *)logsumexp.data,
               (const T *)logits.data, (const int32_t *)targets.data, logits.rows, logits.cols);
    });
}

void cuda_objective_rows(struct device *device, enum row_objective objective, struct tensor grad,
                         struct tensor loss, struct tensor log_prob, struct tensor weights, struct tensor targets,
                         double loss_weight, double grad_weight)
{
    with_type(grad.dtype, [&](auto type) {
        using A = wide_t<typename decltype(type)::type>;
        launch(objective_rows<A>, dim3(grad.rows > 0), THREADS, 0, device, (A *)grad.data, (double *)loss.data,
               (const A *)log_prob.data, (const A *)weights.data, (const int32_t *)targets.data, objective,
               loss_weight, grad_weight, grad.rows);
    });
}

void cuda_log_prob_backward(struct device *device, struct tensor logits, struct tensor logsumexp,
                            struct tensor targets, struct tensor grad)
{
    with_type(logits.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        launch(aligned(LANES<T>, logits.cols, logits) ? gradient<LANES<T>, T> : gradient<1, T>,
               blocks_of(logits.rows), THREADS, 0, device, (T *)logits.data, (const A *)logsumexp.data,
               (const int32_t *)targets.data, (const A *)grad.data, logits.rows, logits.cols);
    });
}
