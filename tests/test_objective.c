// Every objective, under every setting, against independent formulas, and against central differences of these.
// Loops over the array: a new entry is tested by existing.
#include "harness/machine/environment.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// Logits of a batch as small as all cases allow: four sequences of six tokens, of which one has no target and each
// of the others ends a document or two within; one has no advantage.
enum { CONTEXT = 6, BATCH = 4, ROWS = CONTEXT * BATCH, VOCAB = 7 };

struct logits {
    struct fixture asked; // objective and settings
    struct device *device;
    struct batch batch;
    struct tensor logits, loss;
    double start[ROWS * VOCAB];
    double weights[ROWS], old[ROWS], reference[ROWS], sampling[ROWS], token_advantages[ROWS]; // [BATCH, CONTEXT]
};
static const double advantages[BATCH] = {1.3, -0.7, 0.4, 0};
static const int32_t desirable[BATCH] = {1, 0, 0, 1};

static int32_t target_of(int b, int t)
{
    bool none = b == 2 || t == CONTEXT - 1 || (b == 1 && t < 2) || (b == 3 && t == 2);
    return none ? NO_TARGET : (5 * b + 3 * t) % VOCAB;
}

// Statistics of the rows, [BATCH, CONTEXT]: log(sum of exp(logits)), the mean of log p over the vocabulary, and
// the entropy.
struct distributions {
    double logsumexp[ROWS], mean[ROWS], entropy[ROWS];
};

static void distributions(struct distributions *of, const double *logits)
{
    *of = (struct distributions){0};
    for (int i = 0; i < ROWS; i++) {
        const double *row = logits + (i % CONTEXT * BATCH + i / CONTEXT) * VOCAB;
        double sum = 0;
        for (int j = 0; j < VOCAB; j++)
            sum += exp(row[j]);
        of->logsumexp[i] = log(sum);
        for (int j = 0; j < VOCAB; j++) {
            of->mean[i] += log(exp(row[j]) / sum) / VOCAB;
            of->entropy[i] -= exp(row[j]) / sum * log(exp(row[j]) / sum);
        }
    }
}

// Log-probs of the targets, [BATCH, CONTEXT]; 0 without one.
static void log_probs(double *log_prob, const double *logits)
{
    for (int i = 0; i < ROWS; i++) {
        int b = i / CONTEXT, t = i % CONTEXT;
        const double *row = logits + (t * BATCH + b) * VOCAB;
        double sum = 0;
        for (int j = 0; j < VOCAB; j++)
            sum += exp(row[j]);
        log_prob[i] = target_of(b, t) < 0 ? 0 : row[target_of(b, t)] - log(sum);
    }
}

static void logits_give(struct logits *l)
{
    struct batch_values values = {.weights = l->weights,
                                  .old_logprobs = l->old,
                                  .reference_logprobs = l->reference,
                                  .sampling_logprobs = l->sampling,
                                  .advantages = advantages,
                                  .desirable = desirable};
    if (strstr(l->asked.settings, "advantages=tokens"))
        values.token_advantages = l->token_advantages;
    batch_set_objective(&l->batch, l->device, l->asked.objective, l->asked.objective_settings, &values);
}

static void logits_open(struct logits *l, struct fixture asked)
{
    static const double ratios[] = {1.1, 2, 0.5, 0.9, 1.3, 0.75, 6};
    struct status status = {0};
    int32_t ids[ROWS] = {0}, targets[ROWS];
    struct random random = random_named(5, "logits");
    double log_prob[ROWS];
    l->asked = asked;
    fixture_open_objective(&l->asked);
    l->device = device_open("cpu", DTYPE_F64, 0, &status);
    assert_non_null(l->device);
    for (int i = 0; i < ROWS * VOCAB; i++)
        l->start[i] = 2 * random_normal(&random, (uint64_t)i);
    log_probs(log_prob, l->start);
    for (int i = 0; i < ROWS; i++) {
        targets[i] = target_of(i / CONTEXT, i % CONTEXT);
        l->weights[i] = i % 5 / 4.0;
        l->old[i] = log_prob[i] - log(ratios[i % 7]);
        l->sampling[i] = l->old[i] - log(ratios[(i + 3) % 7]) / 2;
        l->token_advantages[i] = i % 5 ? (double)(i * 7 % 11 - 5) / 3 : 0;
        l->reference[i] = log_prob[i] + random_normal(&random, (uint64_t)ROWS * VOCAB + (uint64_t)i) / 2;
    }
    batch_open(&l->batch, l->device, ids, targets, CONTEXT, BATCH);
    logits_give(l);
    l->logits = tensor_new(l->device, ROWS, VOCAB, DTYPE_F64, CATEGORY_LOGITS);
    l->loss = tensor_new(l->device, 1, 1, DTYPE_F64, CATEGORY_DATA);
}

static void logits_close(struct logits *l)
{
    tensor_free(l->device, &l->loss);
    tensor_free(l->device, &l->logits);
    batch_close(&l->batch, l->device);
    device_close(l->device);
    fixture_close_objective(&l->asked);
}

static void pass(struct logits *l, size_t block, bool backward)
{
    tensor_write(l->device, l->logits, l->start);
    for (size_t row = 0; row < ROWS; row += block) {
        size_t rows = ROWS - row < block ? ROWS - row : block;
        objective_apply(l->device, &l->batch, tensor_rows(l->logits, row, rows), row, 0,
                        (struct loss_weights){.loss = 1, .grad = 1}, backward, l->loss);
    }
}

// The objective's loss, and the gradient of the logits, in blocks of so many rows.
static double apply(struct logits *l, size_t block, double *grad)
{
    double loss;
    op_zero(l->device, l->loss);
    if (objective_gathers(&l->batch)) {
        objective_begin(l->device, &l->batch);
        pass(l, block, false);
        objective_settle(l->device, &comm_self, &l->batch, l->loss);
    }
    pass(l, block, true);
    tensor_read(l->device, l->logits, grad);
    tensor_read(l->device, l->loss, &loss);
    assert_int_equal(l->device->status.code, STATUS_OK);
    return loss;
}

// Independent formulas of the objectives, from log-probs [BATCH, CONTEXT], with detached factors at those of
// others.
static double number(const struct logits *l, const char *name)
{
    const struct option *option = option_find(&l->asked.objective->options, name);
    if (!option)
        return 0;
    const char *value = (const char *)l->asked.objective_settings + option->offset;
    return option->type == OPTION_COUNT ? (double)*(const size_t *)value : *(const double *)value;
}

static bool is(const struct logits *l, const char *name, const char *choice)
{
    const struct option *option = option_find(&l->asked.objective->options, name);
    int value = *(const int *)((const char *)l->asked.objective_settings + option->offset);
    return strcmp(option->choices[value], choice) == 0;
}

static int count_of(int b)
{
    int count = 0;
    for (int t = 0; t < CONTEXT; t++)
        count += target_of(b, t) >= 0;
    return count;
}

static double likelihood(const struct logits *l, const double *log_prob, const double *held,
                         const struct distributions *of)
{
    const char *name = l->asked.objective->name;
    double loss = 0, total = 0, smoothing = number(l, "smoothing");
    for (int i = 0; i < ROWS; i++) {
        int b = i / CONTEXT;
        bool counts = target_of(b, i % CONTEXT) >= 0;
        double weight = !counts                              ? 0
                        : strcmp(name, "weighted-mean") == 0 ? l->weights[i]
                        : strcmp(name, "sequence-mean") == 0 ? 1.0 / count_of(b)
                                                             : 1;
        total += weight;
        double smoothed = (1 - smoothing) * log_prob[i] + smoothing * of->mean[i];
        loss -= weight * smoothed * (strcmp(name, "dft") == 0 ? exp(held[i]) : 1);
        loss += weight * number(l, "z_loss") * pow(of->logsumexp[i], 2);
    }
    return loss / (strcmp(name, "sequence-mean") == 0 ? BATCH : total);
}

static double minus_log_sigmoid(double x)
{
    return log(1 + exp(-x));
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

// Cost of a pair by S, or a function of it, of the chosen and of the rejected sequence.
static double pair(const struct logits *l, const char *kind, double s, double other)
{
    double beta = number(l, "beta"), u = beta * s, v = beta * other, half = 1 / (2 * beta);
    if (strcmp(kind, "odds") == 0)
        return beta * minus_log_sigmoid(s - other - log((1 - exp(s)) / (1 - exp(other))));
    double e = number(l, "smoothing"), x = u - v - (strcmp(kind, "simpo") == 0 ? number(l, "gamma") : 0);
    double good = minus_log_sigmoid(x), bad = minus_log_sigmoid(-x), m = sigmoid(x / number(l, "tau"));
    return strcmp(kind, "robust") == 0  ? ((1 - e) * good - e * bad) / (1 - 2 * e)
           : strcmp(kind, "ipo") == 0   ? pow(s - other - half, 2)
           : strcmp(kind, "hinge") == 0 ? fmax(0, 1 - x)
           : strcmp(kind, "exo_pair") == 0
               ? sigmoid(x) * log(sigmoid(x) / (1 - e)) + sigmoid(-x) * log(sigmoid(-x) / e)
           : strcmp(kind, "discopop") == 0 ? (1 - m) * good + m * exp(-x)
           : strcmp(kind, "nca_pair") == 0
               ? minus_log_sigmoid(u) + (minus_log_sigmoid(-u) + minus_log_sigmoid(-v)) / 2
           : strcmp(kind, "bco_pair") == 0  ? minus_log_sigmoid(u) + minus_log_sigmoid(-v)
           : strcmp(kind, "sppo_hard") == 0 ? pow(s - half, 2) + pow(other + half, 2)
           : strcmp(kind, "apo_zero") == 0  ? 1 - sigmoid(u) + sigmoid(v)
           : strcmp(kind, "apo_down") == 0  ? sigmoid(u) + 1 - sigmoid(x)
                                            : (1 - e) * good + e * bad;
}

static double divergence(const struct logits *l, double rho)
{
    double alpha = is(l, "divergence", "alpha") ? number(l, "alpha") - 1 : -1;
    return is(l, "divergence", "js")           ? -minus_log_sigmoid(rho)
           : is(l, "divergence", "reverse-kl") ? rho
                                               : exp(alpha * rho) / alpha;
}

static double preference(const struct logits *l, const double *log_prob)
{
    bool orpo = strcmp(l->asked.objective->name, "orpo") == 0;
    bool simpo = !orpo && is(l, "kind", "simpo"), alone = orpo || simpo || is(l, "kind", "cpo");
    bool mean = orpo || simpo || is(l, "kind", "ipo") || is(l, "kind", "sigmoid_norm");
    const char *kind =
        orpo ? "odds" : l->asked.objective->options.rows->choices[*(const int *)l->asked.objective_settings];
    double loss = 0, chosen = 0, less = orpo ? 1 : number(l, "ld_alpha");
    for (int b = 0; b < BATCH; b += 2) {
        double sums[2] = {0};
        int shorter = count_of(b) < count_of(b + 1) ? count_of(b) : count_of(b + 1), seen[2] = {0};
        for (int i = 0; i < 2 * CONTEXT; i++) {
            int row = b * CONTEXT + i;
            bool counts = target_of(row / CONTEXT, row % CONTEXT) >= 0;
            double share = counts && seen[i / CONTEXT]++ >= shorter ? less : 1;
            sums[i / CONTEXT] += counts ? share * (log_prob[row] - (alone ? 0 : l->reference[row])) : 0;
            chosen -= i < CONTEXT ? log_prob[row] : 0;
        }
        for (int i = 0; i < 2; i++) {
            int count = count_of(b + i);
            sums[i] /= mean && count ? count : 1;
            sums[i] = orpo ? sums[i] : divergence(l, sums[i]);
        }
        loss += pair(l, kind, sums[0], sums[1]);
    }
    return loss / (BATCH / 2.0) + (orpo ? 1 : number(l, "sft")) * chosen / (count_of(0) + count_of(2));
}

// Sum of a sequence's log-ratios.
static double gain(const struct logits *l, const double *log_prob, int b)
{
    double sum = 0;
    for (int i = b * CONTEXT; i < (b + 1) * CONTEXT; i++)
        sum += target_of(b, i % CONTEXT) < 0 ? 0 : log_prob[i] - l->reference[i];
    return sum;
}

static double value(const struct logits *l, const double *log_prob, const double *held)
{
    double loss = 0, kl = 0, beta = number(l, "beta");
    int step = is(l, "kind", "kto") ? 2 : 1;
    for (int b = 1; step == 2 && b < BATCH; b += 2)
        kl += gain(l, held, b) / (BATCH / 2.0);
    for (int b = 0; b < BATCH; b += step) {
        double above = beta * (gain(l, log_prob, b) - fmax(0, kl));
        loss += desirable[b] ? number(l, "desirable_weight") * (1 - sigmoid(above))
                             : number(l, "undesirable_weight") * (1 - sigmoid(-above));
    }
    return loss * step / BATCH;
}

static double clipped(const struct logits *l, double ratio, double advantage)
{
    double inside = fmin(fmax(ratio, 1 - number(l, "clip_low")), 1 + number(l, "clip_high"));
    double gain = fmin(ratio * advantage, inside * advantage), dual = number(l, "dual");
    return -(dual > 0 && advantage < 0 ? fmax(gain, dual * advantage) : gain);
}

// Importance factor between training and sampling engine. difference: of the row, or of all of its sequence.
static double sampling_factor(const struct logits *l, double difference)
{
    bool masks = is(l, "sampling", "token_mask") || is(l, "sampling", "sequence_mask");
    double ratio = exp(difference), min = number(l, "sampling_min"), max = number(l, "sampling_max");
    double within = max > 0 && ratio > max ? max : ratio < min ? min : ratio;
    return is(l, "sampling", "off") ? 1 : masks && within != ratio ? 0 : within;
}

static double policy_row(const struct logits *l, double log_prob, double held, double old, double reference,
                         double mean_ratio, double held_ratio, double advantage)
{
    double ratio = exp(log_prob - old), fixed = exp(held - old), gap = reference - log_prob;
    double t = number(l, advantage > 0 ? "temperature" : "temperature_negative");
    double k3 = is(l, "estimator", "k1") ? -gap : is(l, "estimator", "k2") ? gap * gap / 2 : exp(gap) - gap - 1;
    double value = is(l, "policy", "clip")         ? clipped(l, ratio, advantage)
                   : is(l, "policy", "gspo")       ? clipped(l, mean_ratio, advantage)
                   : is(l, "policy", "gspo_token") ? clipped(l, held_ratio * exp(log_prob - held), advantage)
                   : is(l, "policy", "cispo")      ? -fmin(fixed, number(l, "ratio_max")) * advantage * log_prob
                   : is(l, "policy", "sapo")       ? -advantage * 4 / (t * (1 + exp(-t * (ratio - 1))))
                                                   : -advantage * log_prob;
    return value + number(l, "beta") * (is(l, "importance", "on") ? ratio * k3 : k3);
}

static double advantage_of(const struct logits *l, int row)
{
    return strstr(l->asked.settings, "advantages=tokens") ? l->token_advantages[row] : advantages[row / CONTEXT];
}

// Whether the group of the sequence has any advantage.
static bool gains(const struct logits *l, int b)
{
    int group = (int)number(l, "mask_groups"), first = group ? b / group * group : b;
    bool any = group == 0;
    for (int i = first * CONTEXT; i < (first + group) * CONTEXT; i++)
        any |= target_of(i / CONTEXT, i % CONTEXT) >= 0 && advantage_of(l, i) != 0;
    return any;
}

static double policy(const struct logits *l, const double *log_prob, const double *held,
                     const struct distributions *of)
{
    double loss = 0, entropy = 0;
    int rows = 0, sequences = 0;
    bool of_sequence = is(l, "sampling", "sequence_truncate") || is(l, "sampling", "sequence_mask");
    for (int b = 0; b < BATCH; b++) {
        rows += gains(l, b) ? count_of(b) : 0;
        sequences += gains(l, b);
    }
    for (int b = 0; b < BATCH; b++) {
        double mean = 0, held_mean = 0, sum = 0, difference = 0;
        int count = count_of(b);
        for (int i = b * CONTEXT; i < (b + 1) * CONTEXT; i++) {
            bool counts = target_of(b, i % CONTEXT) >= 0;
            mean += counts ? (log_prob[i] - l->old[i]) / count : 0;
            held_mean += counts ? (held[i] - l->old[i]) / count : 0;
            difference += counts ? l->old[i] - l->sampling[i] : 0;
        }
        for (int i = b * CONTEXT; i < (b + 1) * CONTEXT && gains(l, b); i++) {
            double factor = sampling_factor(l, of_sequence ? difference : l->old[i] - l->sampling[i]);
            sum += target_of(b, i % CONTEXT) < 0
                       ? 0
                       : policy_row(l, log_prob[i], held[i], l->old[i], l->reference[i], exp(mean), exp(held_mean),
                                    factor * advantage_of(l, i)) +
                             number(l, "z_loss") * pow(of->logsumexp[i], 2);
            entropy += target_of(b, i % CONTEXT) < 0 ? 0 : of->entropy[i] / rows;
        }
        loss += sum / (is(l, "normaliser", "grpo")      ? sequences * (count ? count : 1)
                       : is(l, "normaliser", "dr_grpo") ? sequences * number(l, "length")
                       : is(l, "normaliser", "luspo")   ? sequences
                                                        : rows);
    }
    return loss - number(l, "entropy_bonus") * entropy;
}

// The loss of logits; held: log-probs at which factors are detached.
static double meant(const struct logits *l, const double *logits, const double *held)
{
    double log_prob[ROWS];
    struct distributions of;
    log_probs(log_prob, logits);
    distributions(&of, logits);
    const char *name = l->asked.objective->name;
    return strcmp(name, "dpo") == 0 || strcmp(name, "orpo") == 0 ? preference(l, log_prob)
           : strcmp(name, "kto") == 0                            ? value(l, log_prob, held)
           : strcmp(name, "grpo") == 0                           ? policy(l, log_prob, held, &of)
                                                                 : likelihood(l, log_prob, held, &of);
}

static double meant_at(const struct logits *l, int element, double by, const double *held)
{
    double moved[ROWS * VOCAB];
    memcpy(moved, l->start, sizeof moved);
    moved[element] += by;
    return meant(l, moved, held);
}

static void test_central_differences(void **state)
{
    (void)state;
    struct fixture asked = fixture_default();
    asked.context = CONTEXT;
    asked.batch_size = BATCH;
    for (size_t n = 0; fixture_choose_objective(&asked, n); n++) {
        struct logits l;
        double grad[ROWS * VOCAB], held[ROWS], h = 1e-3;
        logits_open(&l, asked);
        log_probs(held, l.start);
        double loss = apply(&l, 10, grad), expected = meant(&l, l.start, held);
        if (!(fabs(loss - expected) <= 1e-14 * (1 + fabs(expected))))
            fail_msg("%s %s: loss %.17g, expected %.17g", asked.objective->name, asked.settings, loss, expected);
        for (int i = 0; i < ROWS * VOCAB; i++) {
            double near = meant_at(&l, i, h, held) - meant_at(&l, i, -h, held);
            double far = meant_at(&l, i, 2 * h, held) - meant_at(&l, i, -2 * h, held);
            double numeric = (8 * near - far) / (12 * h);
            bool none = target_of(i / VOCAB % BATCH, i / VOCAB / BATCH) < 0;
            if (!(fabs(numeric - grad[i]) <= 1e-8) || (none && grad[i] != 0)) {
                fail_msg("%s %s: logit %d: gradient %.12g, central differences %.12g", asked.objective->name,
                         asked.settings, i, grad[i], numeric);
            }
        }
        logits_close(&l);
    }
}

// However rows are cut into blocks, sums of sequences have the same bits, and so has the gradient.
static void test_blocks(void **state)
{
    (void)state;
    static const size_t blocks[] = {1, 4, 7, ROWS};
    struct fixture asked = fixture_default();
    asked.context = CONTEXT;
    asked.batch_size = BATCH;
    for (size_t n = 0; fixture_choose_objective(&asked, n); n++) {
        struct logits l;
        double expected[ROWS * VOCAB], grad[ROWS * VOCAB];
        logits_open(&l, asked);
        apply(&l, 10, expected);
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
            apply(&l, blocks[i], grad);
            assert_memory_equal(grad, expected, sizeof grad);
        }
        logits_close(&l);
    }
}

// A batch of which nothing counts has loss 0 and gradient 0, but for what costs something by sums of nothing.
static void test_nothing_counts(void **state)
{
    (void)state;
    struct fixture asked = fixture_default();
    asked.context = CONTEXT;
    asked.batch_size = BATCH;
    int32_t ids[ROWS] = {0}, none[ROWS];
    for (int i = 0; i < ROWS; i++)
        none[i] = NO_TARGET;
    for (size_t n = 0; fixture_choose_objective(&asked, n); n++) {
        struct logits l;
        double grad[ROWS * VOCAB];
        logits_open(&l, asked);
        batch_close(&l.batch, l.device);
        batch_open(&l.batch, l.device, ids, none, CONTEXT, BATCH);
        logits_give(&l);
        struct objective_terms terms = objective_terms(asked.objective, l.asked.objective_settings);
        bool costs = terms.sequences.kind == SEQUENCE_PAIRS || terms.sequences.kind == SEQUENCE_VALUE;
        double loss = apply(&l, 10, grad);
        assert_true(costs ? isfinite(loss) : loss == 0);
        for (int i = 0; i < ROWS * VOCAB; i++)
            assert_true(grad[i] == 0);
        logits_close(&l);
    }
}

static struct logits logits_of(const char *objective, const char *settings)
{
    struct fixture asked = fixture_default();
    struct logits l;
    asked.context = CONTEXT;
    asked.batch_size = BATCH;
    asked.objective = objective_find(objective);
    snprintf(asked.settings, sizeof asked.settings, "%s", settings);
    logits_open(&l, asked);
    return l;
}

// If the reference is the policy itself, each pair costs log 2, and the slope is beta / 2.
static void test_reference_is_the_policy(void **state)
{
    (void)state;
    struct logits l = logits_of("dpo", "beta=0.3");
    double log_prob[ROWS], grad[ROWS * VOCAB];
    log_probs(log_prob, l.start);
    memcpy(l.reference, log_prob, sizeof log_prob);
    logits_give(&l);
    assert_true(fabs(apply(&l, 10, grad) - log(2)) <= 1e-15);
    for (int i = 0; i < ROWS; i++) {
        int b = i / CONTEXT, t = i % CONTEXT;
        double slope = (b % 2 ? 1 : -1) * 0.3 / 2 / 2; // of two pairs
        double expected = target_of(b, t) < 0 ? 0 : slope * (1 - exp(log_prob[i]));
        assert_true(target_of(b, t) < 0 ||
                    fabs(grad[(t * BATCH + b) * VOCAB + target_of(b, t)] - expected) <= 1e-14);
    }
    logits_close(&l);
}

// For each kind of pair: a constant added to both references changes nothing if both sequences have as many rows.
static void test_reference_shifted(void **state)
{
    (void)state;
    static const char *const kinds[] = {"kind=sigmoid", "kind=ipo", "kind=hinge", "kind=robust smoothing=0.2"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct logits l = logits_of("dpo", kinds[k]);
        double expected[ROWS * VOCAB], grad[ROWS * VOCAB];
        double loss = apply(&l, 10, expected);
        for (int b = 0; b < BATCH; b++) {
            int t = 0;
            while (b < 2 && target_of(b, t) < 0)
                t++;
            double by = k == 1 && b < 2 ? 0.25 * count_of(b) : 0.25; // of one row; of ipo the mean moves
            if (b < 2)
                l.reference[b * CONTEXT + t] += by;
        }
        logits_give(&l);
        assert_true(fabs(apply(&l, 10, grad) - loss) <= 1e-13);
        assert_true(largest_difference(grad, expected, ROWS * VOCAB) <= 1e-13);
        logits_close(&l);
    }
}

// Mismatched sequences move the cost of the others by their mean gain over the reference, and not where that is a
// loss; they have no gradient.
static void test_mismatched(void **state)
{
    (void)state;
    for (int gains = 0; gains < 2; gains++) {
        struct logits l = logits_of("kto", "beta=0.3"),
                      without = logits_of("kto", "beta=0.3 kind=apo_zero_unpaired");
        double log_prob[ROWS], grad[ROWS * VOCAB], other[ROWS * VOCAB], moved = 0;
        log_probs(log_prob, l.start);
        for (int i = 0; i < ROWS; i++)
            l.reference[i] = without.reference[i] = log_prob[i] - (i / CONTEXT % 2 ? (gains ? 0.5 : -0.5) : 0.1);
        logits_give(&l);
        logits_give(&without);
        double loss = apply(&l, 10, grad);
        apply(&without, 10, other);
        assert_true(fabs(loss - meant(&l, l.start, log_prob)) <= 1e-14);
        for (int i = 0; i < ROWS * VOCAB; i++) {
            bool mismatched = i / VOCAB % BATCH % 2;
            assert_true(!mismatched || grad[i] == 0);
            moved = fmax(moved, mismatched ? 0 : fabs(grad[i] - 2 * other[i])); // a mean over half as many
        }
        assert_true(gains ? moved > 1e-3 : moved <= 1e-16);
        logits_close(&l);
        logits_close(&without);
    }
}

// A group without advantages is as if it were not there, in loss and in what that is divided by.
static void test_masked_groups(void **state)
{
    (void)state;
    static const double two[BATCH] = {1.3, -0.7, 0, 0}, three[BATCH] = {0, 0, 0, 0.4}, none[BATCH];
    static const char *const settings[] = {"mask_groups=2 beta=0.1", "mask_groups=2 beta=0.1 normaliser=grpo",
                                           "mask_groups=2 beta=0.1 normaliser=dr_grpo length=9"};
    for (size_t i = 0; i < 3 * 3; i++) {
        struct logits l = logits_of("grpo", settings[i / 3]);
        const double *given = i % 3 == 0 ? two : i % 3 == 1 ? three : none;
        struct batch_values values = {
            .old_logprobs = l.old, .reference_logprobs = l.reference, .advantages = given};
        double log_prob[ROWS], grad[ROWS * VOCAB], expected = 0, rows = 0, sequences = i % 3 == 2 ? 0 : 2;
        int32_t ids[ROWS] = {0}, targets[ROWS];
        for (int row = 0; row < ROWS; row++)
            targets[row] = target_of(row / CONTEXT, row % CONTEXT);
        batch_close(&l.batch, l.device);
        batch_open(&l.batch, l.device, ids, targets, CONTEXT, BATCH);
        batch_set_objective(&l.batch, l.device, l.asked.objective, l.asked.objective_settings, &values);
        log_probs(log_prob, l.start);
        for (int row = 0; row < ROWS; row++) {
            int b = row / CONTEXT;
            bool counts = target_of(b, row % CONTEXT) >= 0 && (given[b] != 0 || given[b ^ 1] != 0);
            double cost =
                counts ? policy_row(&l, log_prob[row], log_prob[row], l.old[row], l.reference[row], 1, 1, given[b])
                       : 0;
            expected += i / 3 == 1 && counts ? cost / count_of(b) : cost;
            rows += counts;
        }
        assert_true(l.batch.normaliser.rows == rows && l.batch.normaliser.sequences == sequences);
        expected /= i % 3 == 2 ? 1 : i / 3 == 0 ? rows : i / 3 == 1 ? sequences : 9 * sequences;
        assert_true(fabs(apply(&l, 10, grad) - expected) <= 1e-14);
        for (int j = 0; j < ROWS * VOCAB; j++) {
            int b = j / VOCAB % BATCH;
            assert_true(given[b] != 0 || given[b ^ 1] != 0 || grad[j] == 0);
        }
        logits_close(&l);
    }
}

// Without advantages nothing is learnt but to be near the reference.
static void test_no_advantage(void **state)
{
    (void)state;
    static const char *const policies[] = {"clip", "cispo", "sapo", "gspo", "reinforce", "gspo_token"};
    static const double none[BATCH];
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        char settings[64];
        double grads[2][ROWS * VOCAB];
        for (int beta = 0; beta < 2; beta++) {
            snprintf(settings, sizeof settings, "policy=%s beta=%d", policies[i], beta);
            struct logits l = logits_of("grpo", settings);
            struct batch_values values = {
                .old_logprobs = l.old, .reference_logprobs = l.reference, .advantages = none};
            batch_set_objective(&l.batch, l.device, l.asked.objective, l.asked.objective_settings, &values);
            double loss = apply(&l, 10, grads[beta]);
            assert_true(beta ? loss > 0.01 : loss == 0);
            for (int j = 0; j < ROWS * VOCAB; j++)
                assert_true(beta || grads[0][j] == 0);
            logits_close(&l);
        }
    }
}

// A ratio at a bound is within it: of a policy that samples its own tokens it is 1, and the gradient that of
// reinforce, under every policy.
static void test_ties(void **state)
{
    (void)state;
    static const char *const settings[] = {"policy=reinforce",
                                           "clip_low=0 clip_high=0",
                                           "clip_low=0 clip_high=0 dual=1",
                                           "policy=gspo clip_low=0 clip_high=0",
                                           "policy=gspo_token clip_low=0 clip_high=0",
                                           "policy=cispo ratio_max=1",
                                           "policy=sapo"};
    double expected[ROWS * VOCAB], grad[ROWS * VOCAB];
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct logits l = logits_of("grpo", settings[i]);
        struct batch_values values = {.advantages = advantages};
        batch_set_objective(&l.batch, l.device, l.asked.objective, l.asked.objective_settings, &values);
        apply(&l, 10, i ? grad : expected);
        assert_true(i == 0 || largest_difference(grad, expected, ROWS * VOCAB) <= 1e-16);
        logits_close(&l);
    }
    assert_true(expected[target_of(0, 0)] < -0.01);
}

// The policy that sampled is read by what takes a ratio to it: not reinforce, unless its divergence is weighed by
// one.
static void test_who_reads_old_logprobs(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        bool reads;
    } cases[] = {{"policy=clip", true},
                 {"policy=reinforce", false},
                 {"policy=reinforce beta=0.1", false},
                 {"policy=reinforce beta=0.1 importance=on", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct logits l = logits_of("grpo", cases[i].settings);
        struct objective_terms terms = objective_terms(l.asked.objective, l.asked.objective_settings);
        assert_int_equal(terms.optional & BATCH_OLD, cases[i].reads ? BATCH_OLD : 0);
        assert_false(terms.required & BATCH_OLD);
        logits_close(&l);
    }
}

// Refusals that depend on the step, not on settings alone.
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *objective, *settings;
        size_t sequences, micro_batches;
        const char *message;
    } cases[] = {
        {"dpo", "", 3, 1, "an even number"},
        {"dpo", "kind=robust smoothing=0.5", 2, 1, "below 0.5"},
        {"orpo", "", 3, 1, "orpo needs pairs"},
        {"dpo", "kind=exo_pair", 2, 1, "give smoothing"},
        {"dpo", "kind=apo_zero smoothing=0.1", 2, 1, "smoothing requires kind"},
        {"dpo", "kind=nca_pair divergence=js", 2, 1, "leave divergence out"},
        {"dpo", "kind=cpo divergence=js", 2, 1, "no reference to be near to"},
        {"dpo", "kind=sigmoid_norm ld_alpha=0.5", 2, 1, "\"sigmoid_norm\" uses means"},
        {"dpo", "kind=sigmoid tau=0.1", 2, 1, "tau requires kind \"discopop\""},
        {"dpo", "kind=exo_pair smoothing=0.001", 2, 1, NULL},
        {"dpo", "kind=ipo ld_alpha=0.5", 2, 1, "\"ipo\" uses means"},
        {"dpo", "kind=simpo ld_alpha=0", 2, 1, "\"simpo\" uses means"},
        {"kto", "", 3, 1, "2i + 1"},
        {"kto", "", 4, 2, "2 micro-batches"},
        {"kto", "kind=apo_zero_unpaired", 3, 2, NULL},
        {"grpo", "normaliser=dr_grpo", 1, 1, "give length"},
        {"grpo", "normaliser=bnpo", 4, 2, "2 micro-batches"},
        {"grpo", "dual=1.1", 1, 1, "less than 1 + clip_high, 1.2"},
        {"grpo", "policy=gspo beta=0.1 importance=on", 1, 1, "leave it off"},
        {"grpo", "policy=gspo_token beta=0.1 importance=on", 1, 1, "\"gspo_token\" has none"},
        {"grpo", "estimator=k1", 1, 1, "beta > 0"},
        {"grpo", "entropy=on entropy_bonus=0.1", 1, 1, "told with entropy_bonus, too; leave it out"},
        {"grpo", "sampling_min=0.1", 1, 1, "requires sampling"},
        {"grpo", "sampling=token_mask sampling_min=4", 1, 1, "more than sampling_max"},
        {"grpo", "mask_groups=4", 6, 1, "use a multiple"},
        {"grpo", "mask_groups=3", 6, 2, NULL},
        {"dpo", "gamma=0.4", 2, 1, "gamma requires kind \"simpo\""},
        {"dpo", "divergence=js alpha=0.4", 2, 1, "alpha requires divergence \"alpha\""},
        {"grpo", "policy=cispo clip_low=0.1", 1, 1, "(clip_low, clip_high, dual) requires policy"},
        {"grpo", "temperature_negative=2", 1, 1, "temperature, of either sign, requires policy \"sapo\""},
        {"grpo", "length=7", 1, 1, "length requires normaliser \"dr_grpo\""},
        {"grpo", "normaliser=bnpo", 4, 1, NULL},
        {"grpo", "normaliser=dr_grpo length=7", 3, 2, NULL},
        {"dpo", "kind=robust smoothing=0.4", 2, 2, NULL},
        {"dpo", "kind=hinge ld_alpha=0 divergence=js", 2, 2, NULL},
        {"token-mean", "", 3, 2, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f = fixture_default();
        struct status status = {0};
        f.objective = objective_find(cases[i].objective);
        snprintf(f.settings, sizeof f.settings, "%s", cases[i].settings);
        fixture_open_objective(&f);
        bool passes =
            objective_check(f.objective, f.objective_settings, cases[i].sequences, cases[i].micro_batches, &status);
        fixture_close_objective(&f);
        assert_int_equal(passes, cases[i].message == NULL);
        assert_true(passes || (status.code == STATUS_BAD_INPUT && strstr(status.message, cases[i].message)));
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_central_differences),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_nothing_counts),
        cmocka_unit_test(test_reference_is_the_policy),
        cmocka_unit_test(test_reference_shifted),
        cmocka_unit_test(test_mismatched),
        cmocka_unit_test(test_masked_groups),
        cmocka_unit_test(test_no_advantage),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_who_reads_old_logprobs),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
