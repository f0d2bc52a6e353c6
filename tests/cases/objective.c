// The objective in three: log-probs of rows, their cost by every function of it, and the gradient of the logits.
// Rows without a target; logits far beyond what exp holds in f32, if the maximum were not taken off.
#include "tests/cases/cases.h"

static const size_t shapes[][2] = {{1, 1}, {5, 33}, {5, 8200}, {600, 257}, {1100, 24}, {1030, 1100}, {256, 50000}};
#define SHAPES (sizeof shapes / sizeof *shapes)

static struct operand *random_logits(struct cases *c, size_t n, size_t vocab)
{
    struct operand *logits = case_random(c, n, vocab, 1, "logits");
    for (size_t i = 0; i < n * vocab; i += 13)
        logits->values[i] *= 100;
    for (size_t i = 0; i < n * vocab; i++)
        logits->values[i] = dtype_round(logits->values[i], logits->tensor.dtype);
    return logits;
}

static double logsumexp_of(const double *row, size_t vocab)
{
    double largest = -INFINITY, sum = 0;
    for (size_t j = 0; j < vocab; j++)
        largest = row[j] > largest ? row[j] : largest;
    for (size_t j = 0; j < vocab; j++)
        sum += exp(row[j] - largest);
    return largest + log(sum);
}

// Caps of logits, from variants 2 * SHAPES on.
static double cap_of(size_t variant)
{
    return variant < 2 * SHAPES ? 0 : 3;
}
static double capped(double x, double cap)
{
    return cap > 0 ? cap * tanh(x / cap) : x;
}
static double cap_slope(double x, double cap)
{
    return cap > 0 ? pow(cosh(x / cap), -2) : 1;
}

// By log p, said once more.
static void distribution_of(double *of, const double *row, size_t vocab)
{
    double logsumexp = logsumexp_of(row, vocab);
    of[OF_SOFTMAX] = of[OF_MEAN] = of[OF_ENTROPY] = 0;
    for (size_t j = 0; j < vocab; j++) {
        double log_prob = row[j] - logsumexp;
        of[OF_MEAN] += log_prob / (double)vocab;
        of[OF_ENTROPY] -= exp(log_prob) * log_prob;
    }
}

// With the rows' distributions and without, capped and not.
void log_prob_cases(struct cases *c)
{
    for (size_t variant = 0; variant < 4 * SHAPES; variant++) {
        size_t s = variant / 2 % SHAPES, n = shapes[s][0], vocab = shapes[s][1];
        if (case_is_too_large(c, (double)(n * vocab)))
            continue;
        double cap = cap_of(variant);
        struct operand *targets = case_integers(c, n, -1, (int32_t)vocab);
        c->offset = s % 3 == 1;
        struct operand *logits = random_logits(c, n, vocab);
        c->offset = 0;
        struct operand *whole = variant % 2 ? case_output_in(c, case_sums(c), n, DISTRIBUTION) : NULL;
        struct operand *log_prob = case_output_in(c, case_sums(c), n, 1);
        struct operand *logsumexp = case_output_in(c, case_sums(c), n, 1);
        CASE_RUN(c, op_log_prob(c->device, log_prob->tensor, logsumexp->tensor,
                                whole ? whole->tensor : tensor_none(), logits->tensor, targets->tensor, cap));
        double *y = malloc(vocab * sizeof *y);
        CHECK(y);
        for (size_t r = 0; r < n; r++) {
            double target = targets->values[r];
            for (size_t j = 0; j < vocab; j++)
                y[j] = capped(logits->values[r * vocab + j], cap);
            logsumexp->values[r] = target < 0 ? 0 : logsumexp_of(y, vocab);
            log_prob->values[r] = target < 0 ? 0 : y[(size_t)target] - logsumexp->values[r];
            for (int i = 0; i < DISTRIBUTION && whole; i++)
                whole->values[r * DISTRIBUTION + (size_t)i] = 0;
            if (whole && target >= 0)
                distribution_of(whole->values + r * DISTRIBUTION, y, vocab);
        }
        free(y);
        case_check(c, log_prob, 0, 16, "log_prob");
        case_check(c, logsumexp, 0, 16, "logsumexp");
        if (whole)
            case_check(c, whole, 0, cap > 0 ? case_growth(vocab) : 64, "distribution"); // many terms weigh
        case_end(c);
    }
}

// Independent formula of a row's cost.
static double divergence_of(enum kl_estimate estimate, double gap)
{
    return estimate == KL_K3 ? exp(gap) - gap - 1 : estimate == KL_K2 ? gap * gap / 2 : -gap;
}

// x: log-prob, that of the policy that sampled, the reference's, advantage, ratio, logsumexp, mean log-prob,
// entropy.
static double cost_of(enum row_objective kind, enum kl_estimate estimate, const double *x, bool chosen,
                      double smoothing, double z_loss, double *slope)
{
    double l = x[0], a = x[3], ratio = exp(l - x[1]), gap = x[2] - l, value = 0,
           s = 1 / (1 + exp(-0.9 * (ratio - 1)));
    bool beyond = a > 0 ? ratio > 1.3 : ratio < 0.8 || ratio > 3;
    *slope = 0;
    switch (kind) {
    case ROW_NONE:
        break;
    case ROW_LIKELIHOOD:
        value = -(1 - smoothing) * l - smoothing * x[6];
        *slope = -(1 - smoothing);
        break;
    case ROW_DFT:
        value = -exp(l) * l;
        *slope = -exp(l);
        break;
    case ROW_CHOSEN:
        value = chosen ? -0.7 * l : 0;
        *slope = chosen ? -0.7 : 0;
        break;
    case ROW_CLIP:
        value = -a * (a > 0 ? fmin(ratio, 1.3) : fmin(fmax(ratio, 0.8), 3));
        *slope = beyond ? 0 : -a * ratio;
        break;
    case ROW_CISPO:
        value = -fmin(ratio, 1.1) * a * l;
        *slope = -fmin(ratio, 1.1) * a;
        break;
    case ROW_SAPO:
        value = -a * 4 / 0.9 * s;
        *slope = -a * 4 * s * (1 - s) * ratio;
        break;
    case ROW_REINFORCE:
        value = -a * l;
        *slope = -a;
        break;
    case ROW_RATIO:
        *slope = (a > 0 ? x[4] > 1.3 : x[4] < 0.8 || x[4] > 3) ? 0 : -a * x[4];
        break;
    }
    *slope += 0.3 * (estimate == KL_K3 ? 1 - exp(gap) : estimate == KL_K2 ? -gap : 1);
    return value + 0.3 * divergence_of(estimate, gap) + z_loss * x[5] * x[5];
}

// The loss alone, or with metrics; some are there already.
static struct operand *sums_of(struct cases *c, bool watched)
{
    struct operand *sums = case_output_in(c, DTYPE_F64, watched ? OBJECTIVE_SUMS : 1, 1);
    for (size_t i = 0; i < (watched ? OBJECTIVE_SUMS : 1); i++)
        sums->values[i] = 2.5 - (double)i;
    return sums;
}

// Adds a row to the metrics: whether its ratio is beyond bounds, and k; beta 0.3.
static void watch(struct operand *sums, const struct row_terms *terms, const double *x, double weight)
{
    enum row_objective kind = terms->kind;
    double *metrics = sums->values + 1, a = x[3], ratio = exp(x[0] - x[1]), gap = x[2] - x[0];
    bool clips = kind == ROW_CLIP && a != 0, caps = kind == ROW_CISPO && a != 0;
    metrics[METRIC_CLIP_LOW] += weight * (clips && a < 0 && ratio < 0.8);
    metrics[METRIC_CLIP_HIGH] += weight * ((clips && ratio > (a > 0 ? 1.3 : 3)) || (caps && ratio > 1.1));
    metrics[METRIC_KL] += weight * divergence_of(terms->estimate, gap);
    metrics[METRIC_ENTROPY] += terms->entropy ? weight * x[7] : 0;
    metrics[METRIC_Z_LOSS] += terms->z_loss > 0 ? weight * x[5] * x[5] : 0;
}

// Every objective, with metrics and without; with weights, by counts and with neither; with slopes of sequences,
// which rows share and do not, and without; grad apart and in log_prob's place; blocks that begin within the
// sequences, and rows that say whose they are; with terms of the rows' distributions and without.
void objective_rows_cases(struct cases *c)
{
    static const size_t rows[] = {5, 600};
    const double loss_weight = 0.25, grad_weight = 3;
    enum { KINDS = ROW_RATIO + 1 };
    for (size_t variant = 0; variant < KINDS * 6 * sizeof rows / sizeof *rows; variant++) {
        size_t n = rows[variant / (6 * KINDS)], sequences = 4, first = variant % 4;
        enum row_objective kind = (enum row_objective)(variant % KINDS);
        enum kl_estimate estimate = (enum kl_estimate)(variant / KINDS % 3);
        bool weighted = variant / KINDS % 3 == 0, counted = variant / KINDS % 3 == 1,
             in_place = variant / KINDS % 2;
        bool watched = variant / KINDS % 2;
        struct row_terms terms = {kind, {0.2, 0.3, 3}, 1.1, 0.9, 0.9, 0.7, 0.3, false, estimate, 0, 0, 0, false};
        bool spread = variant % 7 % 2;
        if (spread) {
            terms.smoothing = variant % 7 == 1 ? 0 : 0.2;
            terms.z_loss = variant % 7 == 3 ? 0 : 0.1;
            terms.entropy_bonus = variant % 7 == 5 ? 0 : 0.4;
            terms.entropy = variant % 7 == 1 || terms.entropy_bonus > 0;
        }
        struct operand *targets = case_integers(c, n, -1, 7);
        struct operand *of = variant % 5 == 2 ? case_integers(c, n, 0, (int32_t)sequences) : NULL;
        struct operand *counts = case_integers(c, sequences, 0, 5);
        struct operand *loss = sums_of(c, watched);
        struct operand *log_prob = case_random_in(c, case_sums(c), n, 1, 3, "log_prob");
        struct operand *old = case_random_in(c, case_sums(c), n, 1, 0.5, "old");
        struct operand *reference = case_random_in(c, case_sums(c), n, 1, 0.5, "reference");
        struct operand *weights = case_random_in(c, case_sums(c), n, 1, 1, "weights");
        struct operand *advantages = case_random_in(c, case_sums(c), sequences, 1, 1, "advantages");
        struct operand *slopes = case_random_in(c, DTYPE_F64, sequences, 1, 1, "slopes");
        struct operand *of_token =
            variant % 5 == 1 ? case_random_in(c, case_sums(c), n, 1, 1, "token advantages") : NULL;
        struct operand *shares = variant % 4 == 1 ? case_random_in(c, case_sums(c), n, 1, 1, "shares") : NULL;
        struct operand *logsumexp = case_random_in(c, case_sums(c), n, 1, 2, "logsumexp");
        struct operand *whole = spread ? case_random_in(c, case_sums(c), n, DISTRIBUTION, 1, "distribution") : NULL;
        struct operand *grad = in_place ? log_prob : case_output_in(c, case_sums(c), n, 1);
        advantages->values[0] = 0; // whatever the ratio
        for (size_t b = 0; b < sequences && kind == ROW_RATIO; b++)
            slopes->values[b] = fabs(slopes->values[b]); // the ratio
        for (size_t r = 0; r < n; r++) {
            log_prob->values[r] = targets->values[r] < 0 ? 0 : -fabs(log_prob->values[r]);
            old->values[r] = dtype_round(log_prob->values[r] + old->values[r], case_sums(c));
            reference->values[r] = dtype_round(log_prob->values[r] + reference->values[r], case_sums(c));
        }
        struct tensor none = tensor_none();
        struct objective_block block = {.first = first,
                                        .sequences = sequences,
                                        .of = of ? of->tensor : none,
                                        .targets = targets->tensor,
                                        .log_prob = log_prob->tensor,
                                        .logsumexp = spread ? logsumexp->tensor : none,
                                        .distribution = spread ? whole->tensor : none,
                                        .weights = weighted ? weights->tensor : none,
                                        .shares = shares ? shares->tensor : none,
                                        .old = old->tensor,
                                        .reference = reference->tensor,
                                        .counts = counted ? counts->tensor : none,
                                        .advantages = advantages->tensor,
                                        .token_advantages = of_token ? of_token->tensor : none,
                                        .slopes = in_place ? slopes->tensor : none};
        CASE_RUN(c,
                 op_objective_rows(c->device, terms, grad->tensor, loss->tensor, block, loss_weight, grad_weight));
        double scale = 1;
        for (size_t r = 0; r < n; r++) {
            size_t b = of ? (size_t)of->values[r] : (first + r) % sequences;
            double *of = spread ? whole->values + r * DISTRIBUTION : NULL;
            double row[] = {log_prob->values[r],
                            old->values[r],
                            reference->values[r],
                            of_token ? of_token->values[r] : advantages->values[b],
                            in_place ? slopes->values[b] : 1,
                            logsumexp->values[r],
                            spread ? of[OF_MEAN] : 0,
                            spread ? of[OF_ENTROPY] : 0};
            double slope;
            double count = counts->values[b], mean = count > 0 ? 1 / count : 0;
            double weight = weighted ? weights->values[r] : counted ? mean : 1;
            double value =
                weight * cost_of(kind, estimate, row, b % 2 == 0, terms.smoothing, terms.z_loss, &slope) -
                terms.entropy_bonus * row[7];
            bool none_there = targets->values[r] < 0;
            loss->values[0] += none_there ? 0 : loss_weight * value;
            scale += none_there ? 0 : fabs(loss_weight * value);
            if (watched && !none_there)
                watch(loss, &terms, row, loss_weight);
            double share = shares ? shares->values[r] : 1;
            double sum =
                grad_weight * (weight * slope + (in_place && kind != ROW_RATIO ? share * slopes->values[b] : 0));
            grad->values[r] = none_there ? 0 : sum;
            if (spread && !none_there) {
                double by_entropy = -grad_weight * terms.entropy_bonus;
                of[OF_MEAN] = -grad_weight * weight * terms.smoothing;
                of[OF_SOFTMAX] = 2 * grad_weight * weight * terms.z_loss * row[5] - sum - of[OF_MEAN];
                of[OF_SOFTMAX] -= by_entropy * row[7];
                of[OF_ENTROPY] = by_entropy;
            }
        }
        case_check(c, grad, 0, 256, "grad, objective %d", kind);
        if (spread)
            case_check(c, whole, 0, 512, "distribution, objective %d", kind);
        for (size_t i = 1; watched && i < OBJECTIVE_SUMS; i++)
            scale += fabs(loss->values[i]);
        case_check(c, loss, 0, 64 * scale / fmax(1, fabs(loss->values[0])), "loss, objective %d", kind);
        case_end(c);
    }
}

// With a base and without, with shares and without; sums that there are already; more sequences than a block of
// threads; rows that say whose they are.
void sequence_sums_cases(struct cases *c)
{
    static const size_t shapes_of[][3] = {{1, 1, 0}, {7, 2, 1}, {600, 4, 3}, {1000, 50, 17}, {20, 70, 5}};
    for (size_t s = 0; s < 4 * sizeof shapes_of / sizeof *shapes_of; s++) {
        size_t n = shapes_of[s / 4][0], sequences = shapes_of[s / 4][1], first = shapes_of[s / 4][2];
        struct operand *of = s % 4 >= 2 ? case_integers(c, n, 0, (int32_t)sequences) : NULL;
        struct operand *targets = case_integers(c, n, -1, 7);
        struct operand *log_prob = case_random_in(c, case_sums(c), n, 1, 3, "log_prob");
        struct operand *base = case_random_in(c, case_sums(c), n, 1, 3, "base");
        struct operand *sums = case_random_in(c, DTYPE_F64, sequences, 1, 1, "sums");
        struct operand *shares = s % 8 >= 5 ? case_random_in(c, case_sums(c), n, 1, 1, "shares") : NULL;
        struct objective_block block = {.first = first,
                                        .sequences = sequences,
                                        .of = of ? of->tensor : tensor_none(),
                                        .targets = targets->tensor,
                                        .log_prob = log_prob->tensor,
                                        .shares = shares ? shares->tensor : tensor_none()};
        CASE_RUN(c, op_sequence_sums(c->device, sums->tensor, block, s % 2 ? base->tensor : tensor_none()));
        for (size_t r = 0; r < n; r++) {
            double difference = log_prob->values[r] - (s % 2 ? base->values[r] : 0);
            sums->values[of ? (size_t)of->values[r] : (first + r) % sequences] +=
                targets->values[r] < 0 ? 0 : (shares ? shares->values[r] : 1) * difference;
        }
        case_check(c, sums, 0, 4, "sums"); // rows in order: the same bits
        case_end(c);
    }
}

// -log sigma(x)
static double minus_log_sigmoid(double x)
{
    return x < -100 ? -x : log1p(exp(-x));
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

// Independent formula of a pair's cost from phi of the chosen and of the rejected sequence, and of its slopes;
// beta 0.4, e 0.1, gamma 0.3, tau 0.5.
static double pair_of(enum pair_kind kind, double s, double other, double *slope, double *other_slope)
{
    const double beta = 0.4, e = 0.1, tau = 0.5;
    double d = s - other, x = beta * d - (kind == PAIR_SIMPO ? 0.3 : 0), u = beta * s, v = beta * other;
    double good = minus_log_sigmoid(x), bad = minus_log_sigmoid(-x), up = sigmoid(-x), down = sigmoid(x), m, gone;
    double value;
    *other_slope = NAN; // that of the difference, but where each has its own
    switch (kind) {
    case PAIR_IPO:
        value = (d - 1.25) * (d - 1.25);
        *slope = 2 * (d - 1.25);
        break;
    case PAIR_HINGE:
        value = fmax(0, 1 - x);
        *slope = x < 1 ? -beta : 0;
        break;
    case PAIR_ROBUST:
        value = ((1 - e) * good - e * bad) / 0.8;
        *slope = -beta * ((1 - e) * up + e * down) / 0.8;
        break;
    case PAIR_EXO:
        value = down * (-good - log(1 - e)) + up * (-bad - log(e));
        *slope = beta * down * up * (x - log((1 - e) / e));
        break;
    case PAIR_DISCOPOP:
        m = sigmoid(x / tau);
        gone = x < 0 ? exp(x / tau - x) / (1 + exp(x / tau)) : m * exp(-x); // m exp(-x)
        value = (1 - m) * good + gone;
        *slope = beta * (-(1 - m) * up - m * (1 - m) / tau * good + gone * (1 - m) / tau - gone);
        break;
    case PAIR_NCA:
        value = minus_log_sigmoid(u) + minus_log_sigmoid(-u) / 2 + minus_log_sigmoid(-v) / 2;
        *slope = beta * (sigmoid(u) / 2 - sigmoid(-u));
        *other_slope = beta * sigmoid(v) / 2;
        break;
    case PAIR_BCO:
        value = minus_log_sigmoid(u) + minus_log_sigmoid(-v);
        *slope = -beta * sigmoid(-u);
        *other_slope = beta * sigmoid(v);
        break;
    case PAIR_SPPO:
        value = pow(s - 1.25, 2) + pow(other + 1.25, 2);
        *slope = 2 * s - 2.5;
        *other_slope = 2 * other + 2.5;
        break;
    case PAIR_APO_ZERO:
        value = sigmoid(-u) + sigmoid(v);
        *slope = -beta * sigmoid(u) * sigmoid(-u);
        *other_slope = beta * sigmoid(v) * sigmoid(-v);
        break;
    case PAIR_APO_DOWN:
        value = sigmoid(u) + sigmoid(v - u);
        *slope = beta * (sigmoid(u) * sigmoid(-u) - up * down);
        *other_slope = beta * up * down;
        break;
    case PAIR_ODDS:
        s = fmin(s, -1e-12);
        other = fmin(other, -1e-12);
        x = s - other - log(-expm1(s)) + log(-expm1(other));
        value = beta * minus_log_sigmoid(x);
        *slope = s == -1e-12 ? 0 : -beta * sigmoid(-x) / -expm1(s);
        *other_slope = other == -1e-12 ? 0 : beta * sigmoid(-x) / -expm1(other);
        break;
    default:
        value = (1 - e) * good + e * bad;
        *slope = -beta * ((1 - e) * up - e * down);
        break;
    }
    *other_slope = isnan(*other_slope) ? -*slope : *other_slope;
    return value;
}

// Every kind of pair, with S as a sum and as a mean, and ratios, weighed and not; sums from small to huge.
void sequence_costs_cases(struct cases *c)
{
    static const size_t counts_of[] = {2, 6, 1100};
    const double loss_weight = 0.5, beta = 0.4, e = 0.1;
    enum { KINDS = PAIR_ODDS + 1, RATIOS = KINDS + 2, ALL = RATIOS + 2 };
    for (size_t variant = 0; variant < ALL * 2 * sizeof counts_of / sizeof *counts_of; variant++) {
        size_t n = counts_of[variant / (2 * ALL)], kind = variant % ALL;
        bool flag = variant / ALL % 2, pairs = kind < KINDS;
        enum sequence_objective by = pairs ? SEQUENCE_PAIRS : kind < RATIOS ? SEQUENCE_RATIO : SEQUENCE_VALUE;
        struct sequence_terms terms = {.kind = by,
                                       .pair = (enum pair_kind)(kind % KINDS),
                                       .divergence =
                                           n == 2 ? (enum divergence)(variant % 4) : DIVERGENCE_REVERSE_KL,
                                       .alpha = 0.25,
                                       .mean = flag || !pairs,
                                       .beta = beta,
                                       .smoothing = e,
                                       .gamma = 0.3,
                                       .tau = 0.5,
                                       .mismatched = kind == RATIOS,
                                       .baseline = 0.7,
                                       .desirable = 1.5,
                                       .undesirable = -3,
                                       .clip = {0.2, 0.3, kind == KINDS ? 1.5 : 0},
                                       .weighed = flag,
                                       .held = kind == KINDS + 1};
        struct operand *sums = case_random_in(c, DTYPE_F64, n, 1, 3, "sums");
        struct operand *counts = case_integers(c, n, 0, 5);
        size_t each = sequence_gains(terms);
        struct operand *advantages = case_random_in(c, case_sums(c), n, each, 1, "advantages");
        struct operand *loss = sums_of(c, flag);
        for (size_t i = 0; i < n * GAINS && each == GAINS; i++) { // above and below 0, and how many rows of each
            double drawn = fabs(advantages->values[i]);
            advantages->values[i] = i % GAINS == GAIN_BELOW ? -drawn : i % GAINS < 2 ? drawn : (double)(i % 7);
        }
        if (pairs && n > 2) {
            sums->values[0] = 5e4; // log sigma far from 0: exp of it would be infinite
            sums->values[3] = 5e4;
        }
        if (pairs && n == 2 && flag)
            sums->values[0] = -5e4; // beyond the largest exponent of a divergence
        CASE_RUN(c, op_sequence_costs(c->device, terms, sums->tensor, loss->tensor, counts->tensor,
                                      advantages->tensor, loss_weight));
        double scale = 1;
        for (size_t b = 0; b < n; b += pairs || terms.mismatched ? 2 : 1) {
            double w[2], value;
            for (size_t i = 0; i < (pairs ? 2 : 1); i++) {
                double count = counts->values[b + i];
                w[i] = !terms.mean ? 1 : count > 0 ? 1 / count : 0;
            }
            if (pairs) {
                double phi[2], slopes[2];
                for (size_t i = 0; i < 2; i++) {
                    double rho = w[i] * sums->values[b + i];
                    double less = terms.divergence == DIVERGENCE_ALPHA ? -0.75 : -1;
                    bool beyond = less * rho > 88, js = terms.divergence == DIVERGENCE_JS;
                    double power = exp(fmin(less * rho, 88));
                    phi[i] = terms.divergence == DIVERGENCE_REVERSE_KL ? rho
                             : js                                      ? (beyond ? rho : -log(1 + exp(-rho)))
                                                                       : power / less;
                    slopes[i] = terms.divergence == DIVERGENCE_REVERSE_KL ? 1
                                : js                                      ? 1 / (1 + exp(rho))
                                : beyond                                  ? 0
                                                                          : power;
                }
                double each[2];
                value = pair_of(terms.pair, phi[0], phi[1], &each[0], &each[1]);
                double margin = beta * (w[0] * sums->values[b] - w[1] * sums->values[b + 1]);
                sums->values[b] = w[0] * slopes[0] * each[0];
                sums->values[b + 1] = w[1] * slopes[1] * each[1];
                if (flag) {
                    loss->values[1 + METRIC_MARGIN] += loss_weight * margin;
                    loss->values[1 + METRIC_ACCURACY] += loss_weight * (margin > 0);
                    scale += fabs(loss_weight * margin) + 1;
                }
            } else if (by == SEQUENCE_VALUE) {
                double a = advantages->values[b], reward = beta * sums->values[b];
                double lost = sigmoid((a < 0 ? 1 : -1) * (reward - beta * 0.7));
                value = fabs(a) * lost;
                sums->values[b] = -a * beta * lost * (1 - lost);
                if (terms.mismatched)
                    sums->values[b + 1] = 0;
                if (flag) {
                    loss->values[1 + METRIC_MARGIN] += loss_weight * reward * (a < 0 ? -3 : 1.5);
                    loss->values[1 + METRIC_KL] += loss_weight * 0.7;
                    scale += loss_weight * (0.7 + 3 * fabs(reward));
                }
            } else {
                double r = exp(w[0] * sums->values[b]), h = flag ? w[0] : 1, slope = 0;
                value = 0;
                for (size_t i = 0; i < 2; i++) {
                    double a = advantages->values[b * GAINS + i], rows = advantages->values[b * GAINS + 2 + i];
                    double max = a > 0 ? 1.3 : terms.clip.dual > 0 ? 1.5 : INFINITY, min = a < 0 ? 0.8 : 0;
                    value -= h * a * fmin(fmax(r, min), max);
                    slope -= r > max || r < min ? 0 : h * w[0] * a * r;
                    if (flag) {
                        loss->values[1 + METRIC_CLIP_LOW] += loss_weight * rows * (a != 0 && r < min);
                        loss->values[1 + METRIC_CLIP_HIGH] += loss_weight * rows * (a != 0 && r > max);
                        scale += loss_weight * rows;
                    }
                }
                sums->values[b] = terms.held ? r : slope;
            }
            loss->values[0] += loss_weight * value;
            scale += fabs(loss_weight * value);
        }
        case_check(c, sums, 0, 4096, "slopes, variant %zu", variant % (2 * ALL));
        case_check(c, loss, 0, 4096 * scale / fmax(1, fabs(loss->values[0])), "loss, variant %zu",
                   variant % (2 * ALL));
        case_end(c);
    }
}

// With the gradient by the rows' distributions and without, capped and not.
void log_prob_backward_cases(struct cases *c)
{
    for (size_t variant = 0; variant < 4 * SHAPES; variant++) {
        size_t s = variant / 2 % SHAPES, n = shapes[s][0], vocab = shapes[s][1];
        if (case_is_too_large(c, (double)(n * vocab)))
            continue;
        double cap = cap_of(variant);
        struct operand *targets = case_integers(c, n, -1, (int32_t)vocab);
        c->offset = s % 3 == 1;
        struct operand *logits = random_logits(c, n, vocab);
        c->offset = 0;
        struct operand *logsumexp = case_output_in(c, case_sums(c), n, 1);
        struct operand *grad = case_random_in(c, case_sums(c), n, 1, 1, "grad");
        struct operand *whole =
            variant % 2 ? case_random_in(c, case_sums(c), n, DISTRIBUTION, 1, "distribution") : NULL;
        double *y = malloc(n * vocab * sizeof *y);
        CHECK(y);
        for (size_t r = 0; r < n; r++) {
            bool none = targets->values[r] < 0;
            for (size_t j = 0; j < vocab; j++)
                y[r * vocab + j] = capped(dtype_round(logits->values[r * vocab + j], logits->tensor.dtype), cap);
            logsumexp->values[r] = none ? 0 : logsumexp_of(y + r * vocab, vocab);
            grad->values[r] = none ? 0 : grad->values[r];
        }
        CASE_RUN(c, op_log_prob_backward(c->device, logits->tensor, logsumexp->tensor, targets->tensor,
                                         grad->tensor, whole ? whole->tensor : tensor_none(), cap));
        for (size_t i = 0; i < n * vocab; i++) {
            size_t r = i / vocab;
            double log_prob = y[i] - logsumexp->values[r], softmax = exp(log_prob);
            double at_target = (double)(i % vocab) == targets->values[r] ? grad->values[r] : 0;
            double *of = whole ? whole->values + r * DISTRIBUTION : NULL;
            double sum = whole
                             ? softmax * (of[OF_SOFTMAX] - of[OF_ENTROPY] * log_prob) + of[OF_MEAN] / (double)vocab
                             : -grad->values[r] * softmax;
            logits->values[i] = targets->values[r] < 0 ? 0 : (at_target + sum) * cap_slope(logits->values[i], cap);
        }
        free(y);
        // exp(-300) has 300 epsilon, and logsumexp as many.
        case_check(c, logits, 1, 1024, "logits");
        case_end(c);
    }
}
