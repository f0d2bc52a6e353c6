// Sequence objective: what a pair of sequences, or one, costs as a function of the sums of its rows, and the
// derivative; the same source on every device.
#pragma once
#include "kernels/base/row_objective.h"

enum sequence_objective {
    SEQUENCE_NONE,
    SEQUENCE_PAIRS, // of sequences 2i and 2i + 1, the first chosen: by D, the difference of S = sum of (l - q)
    SEQUENCE_RATIO  // of each row of a sequence: clipped, by s = exp(mean of (l - o)). Zheng et al. 2025, arXiv
                    // 2507.18071
};

// With x = beta D, D the difference of S where the divergence is the reverse KL:
enum pair_kind {
    PAIR_SIGMOID, // -(1 - e) log sigma(x) - e log sigma(-x). Rafailov et al. 2023, arXiv 2305.18290, equation 7; e
                  // > 0: Mitchell 2023, "A note on DPO with noisy preferences"
    PAIR_ROBUST,  // (-(1 - e) log sigma(x) + e log sigma(-x)) / (1 - 2 e). Chowdhury et al. 2024, arXiv 2403.00409
    PAIR_IPO,     // (D - 1 / (2 beta))^2, S a mean. Azar et al. 2023, arXiv 2310.12036, equation 17
    PAIR_HINGE,   // max(0, 1 - x). Zhao et al. 2023, arXiv 2305.10425
    PAIR_SIMPO    // as sigmoid of x - gamma, S the mean of l. Meng et al. 2024, arXiv 2405.14734, equation 6
};

// How far a sequence is from the reference, as a function phi of rho, its S; D is phi of the chosen one's less that
// of the rejected one's. Wang et al. 2023, arXiv 2309.16240, table 1.
enum divergence {
    DIVERGENCE_REVERSE_KL, // rho
    DIVERGENCE_FORWARD_KL, // -exp(-rho)
    DIVERGENCE_JS,         // log sigma(rho)
    DIVERGENCE_ALPHA       // exp((a - 1) rho) / (a - 1)
};

struct sequence_terms {
    enum sequence_objective kind;
    enum pair_kind pair;
    enum divergence divergence;
    double alpha;                  // a
    bool mean;                     // S is the mean over the rows with a target
    double beta, smoothing, gamma; // of pairs; smoothing is e
    struct clip clip;              // of ratios
    bool weighed;                  // rows of a ratio count 1 / their number
};

// -log sigma(x)
HOST_DEVICE static inline double objective_softplus_minus(double x)
{
    return (x < 0 ? -x : 0) + log1p(exp(-fabs(x)));
}

// phi and its derivative. No exponent counts for more than what f32 holds the exponential of, and beyond it the
// slope is 0: so Hugging Face's TRL bounds them, and else one sequence far from the reference would leave nothing
// finite.
#define DIVERGENCE_EXPONENT_MAX 88.0

HOST_DEVICE static inline struct row_cost sequence_distance(struct sequence_terms terms, double rho)
{
    struct row_cost phi = {rho, 1};
    double less = terms.divergence == DIVERGENCE_ALPHA ? terms.alpha - 1 : -1, exponent = less * rho;
    bool bounded = exponent > DIVERGENCE_EXPONENT_MAX;
    switch (terms.divergence) {
    case DIVERGENCE_REVERSE_KL:
        break;
    case DIVERGENCE_FORWARD_KL:
    case DIVERGENCE_ALPHA:
        phi.slope = exp(bounded ? DIVERGENCE_EXPONENT_MAX : exponent);
        phi.value = phi.slope / less;
        phi.slope = bounded ? 0 : phi.slope;
        break;
    case DIVERGENCE_JS:
        phi.value = -objective_softplus_minus(rho);
        phi.slope = objective_sigmoid(-rho);
        break;
    }
    return phi;
}

// By D.
HOST_DEVICE static inline struct row_cost pair_cost(struct sequence_terms terms, double difference)
{
    double e = terms.smoothing, x = terms.beta * difference, sign = 1, scale = 1, gap;
    struct row_cost cost = {0, 0};
    switch (terms.pair) {
    case PAIR_IPO:
        gap = difference - 1 / (2 * terms.beta);
        cost.value = gap * gap;
        cost.slope = 2 * gap;
        return cost;
    case PAIR_HINGE:
        cost.value = x < 1 ? 1 - x : 0;
        cost.slope = x < 1 ? -terms.beta : 0;
        return cost;
    case PAIR_SIMPO:
        x -= terms.gamma;
        break;
    case PAIR_ROBUST:
        sign = -1;
        scale = 1 / (1 - 2 * e);
        break;
    case PAIR_SIGMOID:
        break;
    }
    cost.value = scale * ((1 - e) * objective_softplus_minus(x) + sign * e * objective_softplus_minus(-x));
    cost.slope = -terms.beta * scale * ((1 - e) * objective_sigmoid(-x) - sign * e * objective_sigmoid(x));
    return cost;
}

// 1 / count, 0 where nothing counts.
HOST_DEVICE static inline double objective_share(int count)
{
    return count > 0 ? 1 / (double)count : 0;
}

// The sums of sequences 2i and 2i + 1 become the derivatives of the pair's cost by their rows' l. counts: of their
// rows with a target, where S is a mean; else NULL. Adds what the pair costs, and its metrics.
HOST_DEVICE static inline void pair_settle(struct sequence_terms terms, double sums[2], const int *counts,
                                           struct objective_sums *step)
{
    double chosen = counts ? objective_share(counts[0]) : 1, rejected = counts ? objective_share(counts[1]) : 1;
    double near_rho = chosen * sums[0], far_rho = rejected * sums[1];
    struct row_cost near = sequence_distance(terms, near_rho), far = sequence_distance(terms, far_rho);
    struct row_cost cost = pair_cost(terms, near.value - far.value);
    sums[0] = chosen * near.slope * cost.slope;
    sums[1] = -rejected * far.slope * cost.slope;
    step->loss += cost.value;
    step->metrics[METRIC_MARGIN] += terms.beta * (near_rho - far_rho);
    step->metrics[METRIC_ACCURACY] += near_rho > far_rho;
}

// The same of one sequence's rows, which have a ratio in common.
HOST_DEVICE static inline void ratio_settle(struct sequence_terms terms, double *sum, int count, double advantage,
                                            struct objective_sums *step)
{
    double share = objective_share(count), weight = terms.weighed ? share : 1, ratio = exp(share * *sum);
    struct row_cost cost = clip_cost(terms.clip, ratio, advantage);
    *sum = weight * cost.slope;
    step->loss += weight * count * cost.value;
    clip_metrics(clip_bounds(terms.clip, advantage), ratio, advantage, count, step);
}
