// Sequence objective: the cost of a sequence, or of a pair, as a function of the sums of its rows, and the
// derivative; the same source on every device.
#pragma once
#include "kernels/device/row_objective.h"

enum sequence_objective {
    SEQUENCE_NONE,
    SEQUENCE_PAIRS, // pairs of sequences 2i (chosen) and 2i + 1, by D, the difference of S = sum of (l - q)
    SEQUENCE_RATIO, // each sequence, clipped, by s = exp(mean of (l - o)). Zheng et al. 2025, arXiv 2507.18071
    SEQUENCE_VALUE  // each sequence: w sigma(-beta (S - kl)) if desirable, else w sigma(beta (S - kl)). Ethayarajh
                    // et al. 2024, arXiv 2402.01306, equation 7
};

// x = beta D, D = phi(chosen) - phi(rejected), the difference of S for the reverse KL divergence. Kinds from
// PAIR_NCA on score each sequence separately, with u = beta S of the chosen one and v of the rejected one.
enum pair_kind {
    PAIR_SIGMOID,  // -(1 - e) log sigma(x) - e log sigma(-x). Rafailov et al. 2023, arXiv 2305.18290, equation 7; e
                   // > 0: Mitchell 2023, "A note on DPO with noisy preferences"
    PAIR_ROBUST,   // (-(1 - e) log sigma(x) + e log sigma(-x)) / (1 - 2 e). Chowdhury et al. 2024, arXiv 2403.00409
    PAIR_IPO,      // (D - 1 / (2 beta))^2, S a mean. Azar et al. 2023, arXiv 2310.12036, equation 17
    PAIR_HINGE,    // max(0, 1 - x). Zhao et al. 2023, arXiv 2305.10425
    PAIR_SIMPO,    // as sigmoid of x - gamma, S the mean of l. Meng et al. 2024, arXiv 2405.14734, equation 6
    PAIR_NORM,     // as sigmoid, S a mean. Lambert et al. 2024, arXiv 2411.15124, equation 6
    PAIR_CPO,      // as sigmoid, S the sum of l. Xu et al. 2024, arXiv 2401.08417, equation 3
    PAIR_EXO,      // KL of (sigma(x), sigma(-x)) from (1 - e, e). Ji et al. 2024, arXiv 2402.00856, equation 16
    PAIR_DISCOPOP, // -(1 - m) log sigma(x) + m exp(-x), m = sigma(x / tau). Lu et al. 2024, arXiv 2406.08414,
                   // equation 5
    PAIR_NCA,      // -log sigma(u) - (log sigma(-u) + log sigma(-v)) / 2. Chen et al. 2024, arXiv 2402.05369
    PAIR_BCO,  // -log sigma(u) - log sigma(-v). Jung et al. 2024, arXiv 2404.04656, without its moving reward shift
    PAIR_SPPO, // (S - 1 / (2 beta))^2 + (S' + 1 / (2 beta))^2. Wu et al. 2024, arXiv 2405.00675, equation 4.7
    PAIR_APO_ZERO, // sigma(-u) + sigma(v). D'Oosterlinck et al. 2024, arXiv 2408.06266, equation 7
    PAIR_APO_DOWN, // sigma(u) + sigma(v - u). The same, equation 8
    PAIR_ODDS // -beta log sigma(log odds - log odds'), S the mean of l, odds = exp(S) / (1 - exp(S)). Hong et al.
              // 2024, arXiv 2403.07691, equation 7
};

// Distance of a sequence from the reference as a function phi of rho, its S. Wang et al. 2023, arXiv 2309.16240,
// table 1.
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
    double alpha;                       // a
    bool mean;                          // S is the mean over the rows with a target
    double beta, smoothing, gamma, tau; // of pairs; smoothing is e
    bool mismatched;                    // SEQUENCE_VALUE: sequences 2i + 1 only estimate kl and cost nothing
    double baseline;                    // kl
    double desirable, undesirable;      // factors of S in the mean margin
    struct clip clip;                   // of ratios
    bool weighed;                       // a ratio's rows have weight 1 / their number
    bool held;                          // each row has its own slope by the ratio
};

// -log sigma(x)
HOST_DEVICE static inline double objective_softplus_minus(double x)
{
    return (x < 0 ? -x : 0) + log1p(exp(-fabs(x)));
}

// phi and its derivative. Exponents are clipped at the largest with a finite f32 exponential, with slope 0 beyond,
// as in Hugging Face's TRL. Otherwise one sequence far from the reference would make everything infinite.
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

// Cost and its derivatives by phi, or S, of both sequences.
struct pair_cost {
    double value, chosen, rejected;
};

// Mean log-probs are clipped here, with slope 0 beyond, because the odds of a certain sequence are infinite.
#define ODDS_LOG_PROB_MAX (-1e-12)

// log(exp(S) / (1 - exp(S))) and its derivative.
HOST_DEVICE static inline struct row_cost sequence_log_odds(double mean)
{
    bool bounded = mean > ODDS_LOG_PROB_MAX;
    double s = bounded ? ODDS_LOG_PROB_MAX : mean, against = -expm1(s); // 1 - exp(s)
    struct row_cost odds = {s - log(against), bounded ? 0 : 1 / against};
    return odds;
}

// A cost that depends on D alone, and its derivative by D.
HOST_DEVICE static inline struct row_cost difference_cost(struct sequence_terms terms, double difference)
{
    double e = terms.smoothing, x = terms.beta * difference, sign = 1, scale = 1, gap, up, mixed;
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
    case PAIR_EXO:
        up = objective_sigmoid(x);
        cost.value = -up * (objective_softplus_minus(x) + log1p(-e)) -
                     objective_sigmoid(-x) * (objective_softplus_minus(-x) + log(e));
        cost.slope = terms.beta * up * objective_sigmoid(-x) * (x - log1p(-e) + log(e));
        return cost;
    case PAIR_DISCOPOP:
        up = objective_sigmoid(-x / terms.tau);                    // 1 - m
        mixed = exp(-x - objective_softplus_minus(x / terms.tau)); // m exp(-x)
        gap = objective_sigmoid(x / terms.tau) * up / terms.tau;   // m' = m (1 - m) / tau
        cost.value = up * objective_softplus_minus(x) + mixed;
        cost.slope = terms.beta * (-up * objective_sigmoid(-x) - gap * objective_softplus_minus(x) +
                                   mixed * (up / terms.tau - 1));
        return cost;
    case PAIR_SIMPO:
        x -= terms.gamma;
        break;
    case PAIR_ROBUST:
        sign = -1;
        scale = 1 / (1 - 2 * e);
        break;
    default: // sigmoid
        break;
    }
    cost.value = scale * ((1 - e) * objective_softplus_minus(x) + sign * e * objective_softplus_minus(-x));
    cost.slope = -terms.beta * scale * ((1 - e) * objective_sigmoid(-x) - sign * e * objective_sigmoid(x));
    return cost;
}

// A pair's cost by phi of the chosen and rejected sequences.
HOST_DEVICE static inline struct pair_cost pair_cost(struct sequence_terms terms, double chosen, double rejected)
{
    double beta = terms.beta, u = beta * chosen, v = beta * rejected, half = 1 / (2 * beta);
    double up = objective_sigmoid(u), down = objective_sigmoid(-u), both;
    struct pair_cost cost = {0, 0, 0};
    struct row_cost of_difference, odds, other;
    switch (terms.pair) {
    case PAIR_NCA:
        cost.value =
            objective_softplus_minus(u) + (objective_softplus_minus(-u) + objective_softplus_minus(-v)) / 2;
        cost.chosen = beta * (up / 2 - down);
        cost.rejected = beta * objective_sigmoid(v) / 2;
        break;
    case PAIR_BCO:
        cost.value = objective_softplus_minus(u) + objective_softplus_minus(-v);
        cost.chosen = -beta * down;
        cost.rejected = beta * objective_sigmoid(v);
        break;
    case PAIR_SPPO:
        cost.value = (chosen - half) * (chosen - half) + (rejected + half) * (rejected + half);
        cost.chosen = 2 * (chosen - half);
        cost.rejected = 2 * (rejected + half);
        break;
    case PAIR_APO_ZERO:
        cost.value = down + objective_sigmoid(v);
        cost.chosen = -beta * up * down;
        cost.rejected = beta * objective_sigmoid(v) * objective_sigmoid(-v);
        break;
    case PAIR_APO_DOWN:
        both = objective_sigmoid(v - u);
        cost.value = up + both;
        both *= objective_sigmoid(u - v);
        cost.chosen = beta * (up * down - both);
        cost.rejected = beta * both;
        break;
    case PAIR_ODDS:
        odds = sequence_log_odds(chosen);
        other = sequence_log_odds(rejected);
        cost.value = beta * objective_softplus_minus(odds.value - other.value);
        cost.chosen = -beta * objective_sigmoid(other.value - odds.value) * odds.slope;
        cost.rejected = beta * objective_sigmoid(other.value - odds.value) * other.slope;
        break;
    default:
        of_difference = difference_cost(terms, chosen - rejected);
        cost.value = of_difference.value;
        cost.chosen = of_difference.slope;
        cost.rejected = -of_difference.slope;
        break;
    }
    return cost;
}

// 1 / count; 0 if count is 0.
HOST_DEVICE static inline double objective_share(int count)
{
    return count > 0 ? 1 / (double)count : 0;
}

// Replaces the sums of sequences 2i and 2i + 1 by the derivatives of the pair's cost by their rows' l. counts: rows
// with a target if S is a mean; else NULL. Adds the pair's cost and metrics.
HOST_DEVICE static inline void pair_settle(struct sequence_terms terms, double sums[2], const int *counts,
                                           struct objective_sums *step)
{
    double chosen = counts ? objective_share(counts[0]) : 1, rejected = counts ? objective_share(counts[1]) : 1;
    double near_rho = chosen * sums[0], far_rho = rejected * sums[1];
    struct row_cost near = sequence_distance(terms, near_rho), far = sequence_distance(terms, far_rho);
    struct pair_cost cost = pair_cost(terms, near.value, far.value);
    sums[0] = chosen * near.slope * cost.chosen;
    sums[1] = rejected * far.slope * cost.rejected;
    step->loss += cost.value;
    step->metrics[METRIC_MARGIN] += terms.beta * (near_rho - far_rho);
    step->metrics[METRIC_ACCURACY] += near_rho > far_rho;
}

// Advantages of a sequence's rows: sums of the positive and the negative ones, and their counts.
enum { GAIN_ABOVE, GAIN_BELOW, GAIN_ROWS_ABOVE, GAIN_ROWS_BELOW, GAINS };

// Replaces a sequence's sum by the derivative for its rows, which share a ratio; if held, by that ratio.
HOST_DEVICE static inline void ratio_settle(struct sequence_terms terms, double *sum, int count,
                                            const double gains[GAINS], struct objective_sums *step)
{
    double share = objective_share(count), weight = terms.weighed ? share : 1, ratio = exp(share * *sum), slope = 0;
    for (int i = GAIN_ABOVE; i <= GAIN_BELOW; i++) {
        struct row_cost cost = clip_cost(terms.clip, ratio, gains[i]);
        step->loss += weight * cost.value;
        slope += weight * share * cost.slope;
        clip_metrics(clip_bounds(terms.clip, gains[i]), ratio, gains[i], gains[GAIN_ROWS_ABOVE + i], step);
    }
    *sum = terms.held ? ratio : slope;
}

// Replaces a sequence's sum by its cost's derivative. advantage: w, or -w if it is not desirable.
HOST_DEVICE static inline void value_settle(struct sequence_terms terms, double *sum, double advantage,
                                            struct objective_sums *step)
{
    double sign = advantage < 0 ? -1 : 1, reward = terms.beta * *sum;
    double z = sign * (reward - terms.beta * terms.baseline), less = objective_sigmoid(-z);
    step->loss += sign * advantage * less;
    step->metrics[METRIC_MARGIN] += reward * (advantage < 0 ? terms.undesirable : terms.desirable);
    step->metrics[METRIC_KL] += terms.baseline;
    *sum = -advantage * terms.beta * objective_sigmoid(z) * less;
}

// Number of sequences that sequence_settle handles together.
HOST_DEVICE static inline size_t sequence_stride(struct sequence_terms terms)
{
    return terms.kind == SEQUENCE_PAIRS || terms.mismatched ? 2 : 1;
}

// Number of advantage values per sequence.
HOST_DEVICE static inline size_t sequence_gains(struct sequence_terms terms)
{
    return terms.kind == SEQUENCE_RATIO ? GAINS : 1;
}

// Replaces the sums by the slopes of the rows. counts: per sequence, NULL if unused; gains: of the first sequence.
HOST_DEVICE static inline void sequence_settle(struct sequence_terms terms, double *sums, const int *counts,
                                               const double *gains, struct objective_sums *step)
{
    switch (terms.kind) {
    case SEQUENCE_NONE:
        break;
    case SEQUENCE_PAIRS:
        pair_settle(terms, sums, terms.mean ? counts : NULL, step);
        break;
    case SEQUENCE_RATIO:
        ratio_settle(terms, sums, counts[0], gains, step);
        break;
    case SEQUENCE_VALUE:
        value_settle(terms, sums, gains[0], step);
        if (terms.mismatched)
            sums[1] = 0;
        break;
    }
}
