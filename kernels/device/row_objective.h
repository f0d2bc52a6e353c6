// Row objective: a row's cost as a function f of l, the log-prob of its target, and its derivative by l; the same
// source on every device. To add one: its name here and its case below.
// r = exp(l - o), with o the log-prob under the policy that sampled the row; q: under the reference; A: the
// advantage of the row or its sequence.
// Three terms use the row's whole distribution p over the vocabulary: its logsumexp, its mean log-prob m = mean of
// log p, and its entropy H = -sum of p log p.
#pragma once
#include "kernels/device/objective_sums.h"
#include <math.h>
#include <stdbool.h>

enum row_objective {
    ROW_NONE,       // f = 0
    ROW_LIKELIHOOD, // f = -(1 - smoothing) l - smoothing m. Szegedy et al. 2016, arXiv 1512.00567, section 7
    ROW_DFT,        // f = -p l, p = exp(l) held fixed: f' = -p. Wu et al. 2025, arXiv 2508.05629, equation 9
    ROW_CHOSEN,     // f = -scale l in the sequences 2i, 0 in the others
    ROW_CLIP,  // f = -min(r A, clip(r, 1 - low, 1 + high) A). Schulman et al. 2017, arXiv 1707.06347, equation 7;
               // two bounds: Yu et al. 2025, arXiv 2503.14476
    ROW_CISPO, // f = -min(r, ratio_max) A l, the factor of l held fixed. Chen et al. 2025, arXiv 2506.13585
    ROW_SAPO,  // f = -A 4 sigma(t (r - 1)) / t. Gao et al. 2025, arXiv 2511.20347
    ROW_REINFORCE, // f = -A l. Williams 1992
    ROW_RATIO // CLIP of r = s l / stop(l), s the ratio of the row's sequence: f' is that of s A. GSPO-token, Zheng
              // et al. 2025, arXiv 2507.18071, equation 13. Its cost is counted by the sequence
};

// Estimates k of the divergence from the reference by l - q of a sampled token. Schulman 2020, "Approximating KL
// divergence".
enum kl_estimate {
    KL_K3, // exp(q - l) - (q - l) - 1
    KL_K2, // (l - q)^2 / 2
    KL_K1  // l - q
};

// 1 - low and 1 + high bound the ratio in the direction of gain; dual: the maximum ratio if A < 0 (Ye et al. 2020,
// arXiv 1912.09729), 0: none.
struct clip {
    double low, high, dual;
};

// Columns of a tensor [n, DISTRIBUTION]: first statistics of a row's distribution, then the factors of the loss's
// gradient by its logits beyond that by l: p (of_softmax - of_entropy log p) + of_mean / vocabulary.
enum row_distribution { OF_SOFTMAX, OF_MEAN, OF_ENTROPY, DISTRIBUTION };

// Terms of every objective besides f:
//   beta k, or, with importance, beta r k
//   z_loss logsumexp^2 (Chowdhery et al. 2022, arXiv 2204.02311, section 5)
//   -entropy_bonus H, without the row's weight w
struct row_terms {
    enum row_objective kind;
    struct clip clip;
    double ratio_max;
    double temperature, temperature_negative; // for SAPO, the second if A <= 0
    double scale;
    double beta;
    bool importance;
    enum kl_estimate estimate;
    double smoothing; // for ROW_LIKELIHOOD
    double z_loss, entropy_bonus;
    bool entropy; // compute H, for its bonus or as a metric
};

// Tells whether m or H is read, which takes a pass over the logits.
static inline bool row_reads_distribution(const struct row_terms *terms)
{
    return terms->smoothing > 0 || terms->entropy;
}

// Tells whether the gradient of logits is more than g (onehot - softmax).
static inline bool row_spreads(const struct row_terms *terms)
{
    return terms->smoothing > 0 || terms->z_loss > 0 || terms->entropy_bonus > 0;
}

struct row_values {
    double log_prob, old, reference, advantage, ratio; // ratio: for ROW_RATIO
    bool chosen;                                       // its sequence is a pair's first
    double logsumexp, mean, entropy;
};

struct row_cost {
    double value, slope; // f(l), f'(l)
};

HOST_DEVICE static inline double objective_sigmoid(double x)
{
    double small = exp(-fabs(x));
    return (x < 0 ? small : 1) / (1 + small);
}

// The range in which a ratio is not clipped. At a bound the slope is that of r A.
struct ratio_bounds {
    double smallest, largest;
};

HOST_DEVICE static inline struct ratio_bounds clip_bounds(struct clip clip, double advantage)
{
    struct ratio_bounds bounds = {advantage < 0 ? 1 - clip.low : 0, advantage > 0   ? 1 + clip.high
                                                                    : clip.dual > 0 ? clip.dual
                                                                                    : INFINITY};
    return bounds;
}

// Cost of a ratio r with log r = l + constant.
HOST_DEVICE static inline struct row_cost clip_cost(struct clip clip, double r, double advantage)
{
    struct ratio_bounds bounds = clip_bounds(clip, advantage);
    double counted = r > bounds.largest ? bounds.largest : r < bounds.smallest ? bounds.smallest : r;
    struct row_cost cost = {-counted * advantage, r > bounds.largest || r < bounds.smallest ? 0 : -r * advantage},
                    none = {0, 0};
    return advantage != 0 ? cost : none; // also if the ratio has overflowed
}

// Counts rows whose ratio is beyond either bound; none if the advantage is 0.
HOST_DEVICE static inline void clip_metrics(struct ratio_bounds bounds, double r, double advantage, double rows,
                                            struct objective_sums *sums)
{
    sums->metrics[METRIC_CLIP_LOW] += advantage != 0 && r < bounds.smallest ? rows : 0;
    sums->metrics[METRIC_CLIP_HIGH] += advantage != 0 && r > bounds.largest ? rows : 0;
}

// gap = q - l; the slope is the derivative by l.
HOST_DEVICE static inline struct row_cost row_divergence(enum kl_estimate estimate, double gap)
{
    struct row_cost k = {-gap, 1};
    switch (estimate) {
    case KL_K3:
        k.value = expm1(gap) - gap;
        k.slope = -expm1(gap);
        break;
    case KL_K2:
        k.value = gap * gap / 2;
        k.slope = -gap;
        break;
    case KL_K1:
        break;
    }
    return k;
}

HOST_DEVICE static inline struct row_cost row_cost(struct row_terms terms, struct row_values row)
{
    double l = row.log_prob, ratio = exp(l - row.old), factor, t, s;
    struct row_cost cost = {0, 0};
    switch (terms.kind) {
    case ROW_NONE:
        break;
    case ROW_LIKELIHOOD:
        cost.value = -(1 - terms.smoothing) * l - terms.smoothing * row.mean;
        cost.slope = -(1 - terms.smoothing);
        break;
    case ROW_DFT:
        factor = exp(l);
        cost.value = -factor * l;
        cost.slope = -factor;
        break;
    case ROW_CHOSEN:
        factor = row.chosen ? terms.scale : 0;
        cost.value = -factor * l;
        cost.slope = -factor;
        break;
    case ROW_CLIP:
        cost = clip_cost(terms.clip, ratio, row.advantage);
        break;
    case ROW_CISPO:
        factor = (ratio < terms.ratio_max ? ratio : terms.ratio_max) * row.advantage;
        cost.value = -factor * l;
        cost.slope = -factor;
        break;
    case ROW_SAPO:
        t = row.advantage > 0 ? terms.temperature : terms.temperature_negative;
        s = objective_sigmoid(t * (ratio - 1));
        cost.value = -row.advantage * 4 * s / t;
        cost.slope = s < 1 ? -row.advantage * 4 * s * (1 - s) * ratio : 0; // a large ratio may have overflowed
        break;
    case ROW_REINFORCE:
        cost.value = -row.advantage * l;
        cost.slope = -row.advantage;
        break;
    case ROW_RATIO:
        cost.slope = clip_cost(terms.clip, row.ratio, row.advantage).slope;
        break;
    }
    if (terms.beta != 0) {
        struct row_cost k = row_divergence(terms.estimate, row.reference - l);
        cost.value += terms.beta * (terms.importance ? ratio * k.value : k.value);
        cost.slope += terms.beta * (terms.importance ? ratio * (k.value + k.slope) : k.slope);
    }
    cost.value += terms.z_loss * row.logsumexp * row.logsumexp;
    return cost;
}

// Factors of a row's gradient. weight: of f; g: the gradient by l; grad_weight: of terms without w.
struct row_spread {
    double of[DISTRIBUTION];
};

HOST_DEVICE static inline struct row_spread row_spread(struct row_terms terms, struct row_values row, double weight,
                                                       double g, double grad_weight)
{
    struct row_spread spread;
    spread.of[OF_MEAN] = -weight * terms.smoothing;
    spread.of[OF_ENTROPY] = -grad_weight * terms.entropy_bonus;
    spread.of[OF_SOFTMAX] =
        2 * weight * terms.z_loss * row.logsumexp - g - spread.of[OF_MEAN] - spread.of[OF_ENTROPY] * row.entropy;
    return spread;
}

// Adds a row to the metrics that are means over rows.
HOST_DEVICE static inline void row_metrics(struct row_terms terms, struct row_values row,
                                           struct objective_sums *sums)
{
    struct ratio_bounds bounds = clip_bounds(terms.clip, row.advantage);
    if (terms.kind == ROW_CISPO) {
        bounds.smallest = 0;
        bounds.largest = terms.ratio_max;
    }
    if (terms.kind == ROW_CLIP || terms.kind == ROW_CISPO)
        clip_metrics(bounds, exp(row.log_prob - row.old), row.advantage, 1, sums);
    sums->metrics[METRIC_KL] +=
        terms.beta != 0 ? row_divergence(terms.estimate, row.reference - row.log_prob).value : 0;
    sums->metrics[METRIC_ENTROPY] += terms.entropy ? row.entropy : 0;
    sums->metrics[METRIC_Z_LOSS] += terms.z_loss > 0 ? row.logsumexp * row.logsumexp : 0;
}
