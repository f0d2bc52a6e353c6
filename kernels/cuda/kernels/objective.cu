// Log-probs of the targets of a block of logits, their cost, and the gradients of log-probs and logits.
//   l = logits[target] - logsumexp;  loss += loss_weight * sum of w f(l), in f64;
//   grad = grad_weight * (w f'(l) + slope);  logits = grad * (onehot(target) - softmax). All 0 for rows without a
//   target.
// With a distribution also the rows' mean log-prob and entropy, their cost, and its gradient. With a cap all are of
// the capped logits, which are computed where the logits are read.
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/softmax.cuh"

namespace
{

constexpr int WARPS = 16, THREADS = 32 * WARPS;
constexpr size_t BLOCKS = 1024; // maximum: a block takes rows b, b + blocks, ...

// WHOLE: also computes the row's distribution.
template <bool WHOLE, int N, class T>
__global__ void __launch_bounds__(THREADS)
    log_probs(wide_t<T> *log_prob, wide_t<T> *logsumexp, wide_t<T> *distribution, const T *logits,
              const int32_t *targets, wide_t<T> cap, size_t rows, size_t cols)
{
    using A = wide_t<T>;
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const T *row = logits + r * cols;
        int32_t target = targets[r];
        softmax<A> all = {};
        if (target >= 0)
            all = block_join<WARPS>(thread_softmax<N, THREADS>(row, cols, cap));
        A shifted = 0, weighted = 0; // sums of x - largest, and of exp(x - largest) times it
        if (WHOLE && target >= 0) {
            A x[N];
            for (size_t j = threadIdx.x * N; j < cols; j += THREADS * N) {
                read_logits(x, row + j, cap);
#pragma unroll
                for (int i = 0; i < N; i++) {
                    shifted += x[i] - all.largest;
                    weighted += exp(x[i] - all.largest) * (x[i] - all.largest);
                }
            }
            shifted = warps_sum<WARPS>(shifted);
            weighted = warps_sum<WARPS>(weighted);
        }
        if (threadIdx.x == 0) { // an f64 logarithm is slow on cards with few f64 units
            A lse = 0, l = 0, mean = 0, entropy = 0;
            if (target >= 0) {
                double log_sum = log((double)all.sum);
                lse = (A)((double)all.largest + log_sum);
                l = (A)((double)capped(widen<A>(row[target]), cap) - (double)all.largest - log_sum);
                mean = (A)((double)shifted / (double)cols - log_sum);
                entropy = (A)(log_sum - (double)weighted / (double)all.sum);
            }
            if (WHOLE) {
                distribution[r * DISTRIBUTION + OF_SOFTMAX] = 0;
                distribution[r * DISTRIBUTION + OF_MEAN] = mean;
                distribution[r * DISTRIBUTION + OF_ENTROPY] = entropy;
            }
            logsumexp[r] = lse;
            log_prob[r] = l;
        }
    }
}

// Adds all threads' sums in one order. loss: [count]
__device__ __forceinline__ void add_sums(double *loss, size_t count, struct objective_sums sums, double weight)
{
    sums.loss = warps_sum<WARPS>(sums.loss);
#pragma unroll
    for (size_t i = 0; i < OBJECTIVE_METRICS; i++)
        if (count > 1)
            sums.metrics[i] = warps_sum<WARPS>(sums.metrics[i]);
    if (threadIdx.x == 0)
        objective_sums_add(loss, count, &sums, weight);
}

// A single block, which may use all registers.
template <class A>
__global__ void __launch_bounds__(THREADS, 1)
    objective_rows(A *grad, double *loss, size_t loss_rows, const A *log_prob, struct objective_block block,
                   struct row_terms terms, double loss_weight, double grad_weight, size_t rows)
{
    const int32_t *targets = (const int32_t *)block.targets.data, *counts = (const int32_t *)block.counts.data;
    const A *weights = (const A *)block.weights.data, *old = (const A *)block.old.data;
    const A *reference = (const A *)block.reference.data, *advantages = (const A *)block.advantages.data;
    const A *shares = (const A *)block.shares.data, *of_token = (const A *)block.token_advantages.data;
    const A *lse = (const A *)block.logsumexp.data;
    A *distribution = (A *)block.distribution.data;
    const double *slopes = (const double *)block.slopes.data;
    struct objective_sums sums = {};
    for (size_t r = threadIdx.x; r < rows; r += THREADS) {
        if (targets[r] < 0) {
            grad[r] = 0;
            continue;
        }
        size_t b = objective_sequence(&block, r);
        double l = log_prob[r];
        A *of = distribution ? distribution + r * DISTRIBUTION : nullptr;
        struct row_values row = {l,
                                 old ? (double)old[r] : l,
                                 reference ? (double)reference[r] : 0,
                                 of_token     ? (double)of_token[r]
                                 : advantages ? (double)advantages[b]
                                              : 1,
                                 slopes ? slopes[b] : 1,
                                 b % 2 == 0,
                                 lse ? (double)lse[r] : 0,
                                 terms.smoothing > 0 ? (double)of[OF_MEAN] : 0,
                                 terms.entropy ? (double)of[OF_ENTROPY] : 0};
        A w = weights ? weights[r] : counts ? A(objective_share(counts[b])) : A(1);
        struct row_cost cost = row_cost(terms, row);
        sums.loss += (double)w * cost.value - terms.entropy_bonus * row.entropy;
        if (loss_rows > 1)
            row_metrics(terms, row, &sums);
        double share = shares ? (double)shares[r] : 1;
        double common = slopes && terms.kind != ROW_RATIO ? grad_weight * share * slopes[b] : 0;
        double by_log_prob = grad_weight * (double)w * cost.slope + common;
        grad[r] = A(by_log_prob);
        if (of) {
            struct row_spread spread = row_spread(terms, row, grad_weight * (double)w, by_log_prob, grad_weight);
#pragma unroll
            for (int i = 0; i < DISTRIBUTION; i++)
                of[i] = A(spread.of[i]);
        }
    }
    add_sums(loss, loss_rows, sums, loss_weight);
}

// A thread per sequence: its rows are added in order, however they are cut into blocks.
template <class A>
__global__ void __launch_bounds__(32)
    sequence_sums(double *sums, const A *base, struct objective_block block, size_t rows)
{
    const A *log_prob = (const A *)block.log_prob.data, *shares = (const A *)block.shares.data;
    const int32_t *targets = (const int32_t *)block.targets.data, *of = (const int32_t *)block.of.data;
    size_t b = (size_t)blockIdx.x * 32 + threadIdx.x, sequences = block.sequences;
    if (b >= sequences)
        return;
    double sum = sums[b];
    for (size_t r = of ? 0 : (b + sequences - block.first % sequences) % sequences; r < rows;
         r += of ? 1 : sequences)
        if (targets[r] >= 0 && (!of || (size_t)of[r] == b))
            sum += (shares ? (double)shares[r] : 1) * ((double)log_prob[r] - (base ? (double)base[r] : 0));
    sums[b] = sum;
}

// A single block, which may use all registers.
template <class A>
__global__ void __launch_bounds__(THREADS, 1)
    sequence_costs(double *sums, double *loss, size_t loss_rows, const int32_t *counts, const A *advantages,
                   struct sequence_terms terms, double loss_weight, size_t sequences)
{
    size_t step = sequence_stride(terms), each = sequence_gains(terms);
    struct objective_sums of_step = {};
    for (size_t b = threadIdx.x * step; b < sequences; b += THREADS * step) {
        double gains[GAINS] = {};
#pragma unroll
        for (size_t i = 0; i < GAINS; i++)
            if (advantages && i < each)
                gains[i] = advantages[b * each + i];
        sequence_settle(terms, sums + b, counts ? counts + b : nullptr, gains, &of_step);
    }
    add_sums(loss, loss_rows, of_step, loss_weight);
}

// WHOLE: with the gradient by the row's distribution.
template <bool WHOLE, int N, class T>
__global__ void __launch_bounds__(THREADS)
    gradient(T *logits, const wide_t<T> *logsumexp, const int32_t *targets, const wide_t<T> *grad,
             const wide_t<T> *distribution, wide_t<T> cap, size_t rows, size_t cols)
{
    using A = wide_t<T>;
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        T *row = logits + r * cols;
        int32_t target = targets[r];
        A lse = logsumexp[r], g = grad[r], x[N], of_softmax = -g, of_mean = 0, of_entropy = 0;
        if (WHOLE) {
            of_softmax = distribution[r * DISTRIBUTION + OF_SOFTMAX];
            of_mean = distribution[r * DISTRIBUTION + OF_MEAN] / A(cols);
            of_entropy = distribution[r * DISTRIBUTION + OF_ENTROPY];
        }
        for (size_t j = threadIdx.x * N; j < cols; j += THREADS * N) {
            read_logits(x, row + j, cap);
#pragma unroll
            for (int i = 0; i < N; i++) {
                A slope = cap_slope(x[i], cap);
                A factor = WHOLE ? of_softmax - of_entropy * (x[i] - lse) : of_softmax;
                x[i] = target < 0 ? A(0) : factor * exp(x[i] - lse) + (WHOLE ? of_mean : A(0));
                x[i] += target >= 0 && j + i == (size_t)target ? g : A(0);
                x[i] *= slope;
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

void cuda_log_prob(struct device *device, struct tensor log_prob, struct tensor logsumexp,
                   struct tensor distribution, struct tensor logits, struct tensor targets, double cap)
{
    with_type(logits.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        bool wide = aligned(LANES<T>, logits.cols, logits);
        auto kernel = distribution.data ? (wide ? log_probs<true, LANES<T>, T> : log_probs<true, 1, T>)
                                        : (wide ? log_probs<false, LANES<T>, T> : log_probs<false, 1, T>);
        launch(kernel, blocks_of(logits.rows), THREADS, 0, device, (A *)log_prob.data, (A *)logsumexp.data,
               (A *)distribution.data, (const T *)logits.data, (const int32_t *)targets.data, cap, logits.rows,
               logits.cols);
    });
}

void cuda_objective_rows(struct device *device, struct row_terms terms, struct tensor grad, struct tensor loss,
                         struct objective_block block, double loss_weight, double grad_weight)
{
    with_type(grad.dtype, [&](auto type) {
        using A = wide_t<typename decltype(type)::type>;
        launch(objective_rows<A>, dim3(grad.rows > 0), THREADS, 0, device, (A *)grad.data, (double *)loss.data,
               loss.rows, (const A *)block.log_prob.data, block, terms, loss_weight, grad_weight, grad.rows);
    });
}

void cuda_sequence_sums(struct device *device, struct tensor sums, struct objective_block block, struct tensor base)
{
    with_type(block.log_prob.dtype, [&](auto type) {
        using A = wide_t<typename decltype(type)::type>;
        launch(sequence_sums<A>, dim3((block.sequences + 31) / 32), 32, 0, device, (double *)sums.data,
               (const A *)base.data, block, block.targets.rows);
    });
}

void cuda_sequence_costs(struct device *device, struct sequence_terms terms, struct tensor sums, struct tensor loss,
                         struct tensor counts, struct tensor advantages, double loss_weight)
{
    with_type(dtype_statistic(device->ops->dtype), [&](auto type) {
        using A = wide_t<typename decltype(type)::type>;
        launch(sequence_costs<A>, dim3(1), THREADS, 0, device, (double *)sums.data, (double *)loss.data, loss.rows,
               (const int32_t *)counts.data, (const A *)advantages.data, terms, loss_weight, sums.rows);
    });
}

void cuda_log_prob_backward(struct device *device, struct tensor logits, struct tensor logsumexp,
                            struct tensor targets, struct tensor grad, struct tensor distribution, double cap)
{
    with_type(logits.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        bool wide = aligned(LANES<T>, logits.cols, logits);
        auto kernel = distribution.data ? (wide ? gradient<true, LANES<T>, T> : gradient<true, 1, T>)
                                        : (wide ? gradient<false, LANES<T>, T> : gradient<false, 1, T>);
        launch(kernel, blocks_of(logits.rows), THREADS, 0, device, (T *)logits.data, (const A *)logsumexp.data,
               (const int32_t *)targets.data, (const A *)grad.data, (const A *)distribution.data, cap, logits.rows,
               logits.cols);
    });
}
