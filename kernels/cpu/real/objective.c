// Log-probs of the targets of a block of logits, their cost, and the gradients of log-probs and logits.
//  l = logits[target] - logsumexp;  loss += loss_weight * sum of w f(l), rows in order, in f64, and metrics if
//   requested;  grad = grad_weight * (w f'(l) + share slope);  logits = grad * (onehot(target) - softmax).
//   All are 0 for rows without a target.
// With a distribution also the rows' mean log-prob and entropy, their cost, and its gradient. With a cap all are of
// the capped logits, which are computed where the logits are read.
#include "kernels/cpu/real/cap.h"
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

// The largest logit of a row, and log(sum exp(x - largest)).
__attribute__((always_inline)) static inline real shifted_logsumexp(double *log_sum, const stored *row,
                                                                    size_t vocab, real cap)
{
    real largest = -REAL_INFINITY;
#pragma omp simd reduction(max : largest)
    for (size_t j = 0; j < vocab; j++)
        largest = load(row[j]) > largest ? load(row[j]) : largest;
    largest = capped(largest, cap);
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < vocab; j++)
        sum += (double)real_exp(capped(load(row[j]), cap) - largest);
    *log_sum = log(sum);
    return largest;
}

// Uses log p = (x - largest) - log_sum, so that all terms of a sum have one sign.
__attribute__((always_inline)) static inline void write_distribution(real *of, const stored *row, size_t vocab,
                                                                     real largest, double log_sum, real cap)
{
    double shifted = 0, weighted = 0;
#pragma omp simd reduction(+ : shifted, weighted)
    for (size_t j = 0; j < vocab; j++) {
        real below = capped(load(row[j]), cap) - largest;
        shifted += (double)below;
        weighted += (double)real_exp(below) * (double)below;
    }
    of[OF_SOFTMAX] = 0;
    of[OF_MEAN] = (real)(shifted / (double)vocab - log_sum);
    of[OF_ENTROPY] = (real)(log_sum - weighted * exp(-log_sum));
}

__attribute__((always_inline)) static inline void
row_log_prob(real *log_prob, real *logsumexp, real *of, const stored *row, size_t vocab, int32_t target, real cap)
{
    *logsumexp = *log_prob = 0;
    if (of)
        memset(of, 0, DISTRIBUTION * sizeof *of);
    if (target >= 0) {
        double log_sum, largest = shifted_logsumexp(&log_sum, row, vocab, cap);
        *logsumexp = (real)(largest + log_sum);
        *log_prob = (real)(capped(load(row[target]), cap) - largest - log_sum);
        if (of)
            write_distribution(of, row, vocab, (real)largest, log_sum, cap);
    }
}

void NAME(log_prob)(struct device *device, struct tensor log_prob, struct tensor logsumexp,
                    struct tensor distribution, struct tensor logits, struct tensor targets, double cap)
{
    const int32_t *target = targets.data;
    real *l = log_prob.data, *lse = logsumexp.data, *all = distribution.data;
    size_t rows = logits.rows, vocab = logits.cols;
#pragma omp parallel for schedule(static) if (rows * vocab > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < rows; r++) {
        const stored *row = (const stored *)logits.data + r * vocab;
        real *of = all ? all + r * DISTRIBUTION : NULL;
        if (cap > 0)
            row_log_prob(&l[r], &lse[r], of, row, vocab, target[r], (real)cap);
        else
            row_log_prob(&l[r], &lse[r], of, row, vocab, target[r], 0);
    }
}

void NAME(objective_rows)(struct device *device, struct row_terms terms, struct tensor grad, struct tensor loss,
                          struct objective_block block, double loss_weight, double grad_weight)
{
    const int32_t *target = block.targets.data, *count = block.counts.data;
    const real *l = block.log_prob.data, *weight = block.weights.data, *old = block.old.data;
    const real *share = block.shares.data, *lse = block.logsumexp.data;
    const real *reference = block.reference.data, *advantage = block.advantages.data;
    const real *of_token = block.token_advantages.data;
    bool by_ratio = terms.kind == ROW_RATIO;
    const double *slope = block.slopes.data;
    real *g = grad.data, *of = block.distribution.data;
    struct objective_sums sums = {0};
    for (size_t r = 0; r < grad.rows; r++) {
        size_t b = objective_sequence(&block, r);
        struct row_values row = {.log_prob = (double)l[r],
                                 .old = (double)(old ? old[r] : l[r]),
                                 .reference = reference ? (double)reference[r] : 0,
                                 .advantage = of_token    ? (double)of_token[r]
                                              : advantage ? (double)advantage[b]
                                                          : 1,
                                 .ratio = slope ? slope[b] : 1,
                                 .chosen = b % 2 == 0,
                                 .logsumexp = lse ? (double)lse[r] : 0,
                                 .mean = of && terms.smoothing > 0 ? (double)of[r * DISTRIBUTION + OF_MEAN] : 0,
                                 .entropy = of && terms.entropy ? (double)of[r * DISTRIBUTION + OF_ENTROPY] : 0};
        if (target[r] < 0) {
            g[r] = 0;
            continue;
        }
        real w = weight ? weight[r] : count ? (real)objective_share(count[b]) : 1;
        struct row_cost cost = row_cost(terms, row);
        sums.loss += (double)w * cost.value - terms.entropy_bonus * row.entropy;
        if (loss.rows > 1)
            row_metrics(terms, row, &sums);
        double s = share ? (double)share[r] : 1;
        double by_log_prob =
            grad_weight * (double)w * cost.slope + (slope && !by_ratio ? grad_weight * s * slope[b] : 0);
        g[r] = (real)by_log_prob;
        if (of) {
            struct row_spread spread = row_spread(terms, row, grad_weight * (double)w, by_log_prob, grad_weight);
            for (int i = 0; i < DISTRIBUTION; i++)
                of[r * DISTRIBUTION + i] = (real)spread.of[i];
        }
    }
    objective_sums_add(loss.data, loss.rows, &sums, loss_weight);
}

void NAME(sequence_sums)(struct device *device, struct tensor sums, struct objective_block block,
                         struct tensor base)
{
    const int32_t *target = block.targets.data;
    const real *l = block.log_prob.data, *q = base.data, *share = block.shares.data;
    double *sum = sums.data;
    for (size_t r = 0; r < block.targets.rows; r++) {
        if (target[r] >= 0) {
            double s = share ? (double)share[r] : 1;
            sum[objective_sequence(&block, r)] += s * ((double)l[r] - (q ? (double)q[r] : 0));
        }
    }
}

void NAME(sequence_costs)(struct device *device, struct sequence_terms terms, struct tensor sums,
                          struct tensor loss, struct tensor counts, struct tensor advantages, double loss_weight)
{
    const int32_t *count = counts.data;
    const real *advantage = advantages.data;
    double *sum = sums.data;
    struct objective_sums step = {0};
    size_t each = sequence_gains(terms);
    for (size_t b = 0; b < sums.rows; b += sequence_stride(terms)) {
        double gains[GAINS] = {0};
        for (size_t i = 0; advantage && i < each; i++)
            gains[i] = (double)advantage[b * each + i];
        sequence_settle(terms, sum + b, count ? count + b : NULL, gains, &step);
    }
    objective_sums_add(loss.data, loss.rows, &step, loss_weight);
}

// by: the row's gradient by its distribution.
__attribute__((always_inline)) static inline void spread_gradient(stored *row, size_t vocab, int32_t target, real g,
                                                                  real lse, const real *by, real cap)
{
    real softmax = by[OF_SOFTMAX], entropy = by[OF_ENTROPY], mean = by[OF_MEAN] / (real)vocab;
    real logit = capped(load(row[target]), cap), at_target = logit - lse;
    at_target = g + real_exp(at_target) * (softmax - entropy * at_target) + mean;
#pragma omp simd
    for (size_t j = 0; j < vocab; j++) {
        real y = capped(load(row[j]), cap), log_prob = y - lse;
        row[j] = store((real_exp(log_prob) * (softmax - entropy * log_prob) + mean) * cap_slope(y, cap));
    }
    row[target] = store(at_target * cap_slope(logit, cap));
}

__attribute__((always_inline)) static inline void row_gradient(stored *row, size_t vocab, int32_t target, real g,
                                                               real lse, const real *by, real cap)
{
    if (target < 0) {
        memset(row, 0, vocab * sizeof *row);
        return;
    }
    if (by) {
        spread_gradient(row, vocab, target, g, lse, by, cap);
        return;
    }
    real logit = capped(load(row[target]), cap), at_target = g - g * real_exp(logit - lse);
#pragma omp simd
    for (size_t j = 0; j < vocab; j++) {
        real y = capped(load(row[j]), cap);
        row[j] = store(-g * real_exp(y - lse) * cap_slope(y, cap));
    }
    row[target] = store(at_target * cap_slope(logit, cap));
}

void NAME(log_prob_backward)(struct device *device, struct tensor logits, struct tensor logsumexp,
                             struct tensor targets, struct tensor grad, struct tensor distribution, double cap)
{
    const int32_t *target = targets.data;
    const real *g = grad.data, *lse = logsumexp.data, *all = distribution.data;
    size_t rows = logits.rows, vocab = logits.cols;
#pragma omp parallel for schedule(static) if (rows * vocab > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < rows; r++) {
        stored *row = (stored *)logits.data + r * vocab;
        const real *by = all ? all + r * DISTRIBUTION : NULL;
        if (cap > 0)
            row_gradient(row, vocab, target[r], g[r], lse[r], by, (real)cap);
        else
            row_gradient(row, vocab, target[r], g[r], lse[r], by, 0);
    }
}
