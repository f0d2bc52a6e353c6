// The list of objectives and their options.
#include "kernels/objectives/objective.h"
#include <stddef.h>

const struct metric objective_metrics[OBJECTIVE_METRICS] = {
    [METRIC_MARGIN] = {"margin", PER_PAIR},
    [METRIC_ACCURACY] = {"accuracy", PER_PAIR},
    [METRIC_CLIP_LOW] = {"clip_low", PER_ROW},
    [METRIC_CLIP_HIGH] = {"clip_high", PER_ROW},
    [METRIC_KL] = {"kl", PER_ROW},
    [METRIC_ENTROPY] = {"entropy", PER_ROW},
    [METRIC_Z_LOSS] = {"z_loss", PER_ROW},
    [METRIC_AUX_LOSS] = {"aux_loss", PER_ROW},
    [METRIC_ROUTER_Z_LOSS] = {"router_z_loss", PER_ROW},
};

#define HAS(metric) (1U << (metric))
#define OPTION_Z_LOSS(settings)                                                                                    \
    OPTION("z_loss", NUMBER, settings, z_loss), .maximum = 1e6, .unsaid = true,                                    \
                                                .help = "weight of each token's squared logsumexp, added to its "  \
                                                        "cost (z-loss, Chowdhery et al. 2022, arXiv 2204.02311)"

struct likelihood_settings {
    double z_loss, smoothing;
};

static const struct option likelihood_options[] = {
    {OPTION_Z_LOSS(struct likelihood_settings)},
    {OPTION("smoothing", NUMBER, struct likelihood_settings, smoothing), .maximum = 1, .unsaid = true,
     .help = "share of each target spread evenly over the vocabulary (label smoothing)"},
    {0}};

static void likelihood_set(struct objective_terms *terms, const void *of_objective)
{
    const struct likelihood_settings *settings = of_objective;
    terms->rows.z_loss = settings->z_loss;
    terms->rows.smoothing = settings->smoothing;
    terms->metrics = settings->z_loss > 0 ? HAS(METRIC_Z_LOSS) : 0;
}

static const struct objective token_mean = {
    .name = "token-mean",
    .summary = "cross-entropy, mean over all tokens with a target",
    .source = "default of libraries",
    .options = {likelihood_options, sizeof(struct likelihood_settings)},
    .set = likelihood_set,
    .terms = {.rows.kind = ROW_LIKELIHOOD, .divisor = PER_ROW},
};
static const struct objective sequence_mean = {
    .name = "sequence-mean",
    .summary = "cross-entropy, mean over sequences of their means",
    .source = "Shao et al. 2024, arXiv 2402.03300, as GRPO weighs tokens",
    .options = {likelihood_options, sizeof(struct likelihood_settings)},
    .set = likelihood_set,
    .terms = {.rows.kind = ROW_LIKELIHOOD, .weights = ROWS_BY_SEQUENCE, .divisor = PER_SEQUENCE},
};
static const struct objective weighted_mean = {
    .name = "weighted-mean",
    .summary = "cross-entropy, mean over tokens with given weights",
    .source = "longbp",
    .options = {likelihood_options, sizeof(struct likelihood_settings)},
    .set = likelihood_set,
    .terms = {.rows.kind = ROW_LIKELIHOOD,
              .weights = ROWS_BY_WEIGHT,
              .divisor = PER_WEIGHT,
              .required = BATCH_WEIGHTS},
};

static const struct option dft_options[] = {{OPTION_Z_LOSS(struct likelihood_settings)}, {0}};

static const struct objective dft = {
    .name = "dft",
    .summary = "cross-entropy times the token's probability, which has no gradient",
    .source = "Wu et al. 2025, arXiv 2508.05629",
    .options = {dft_options, sizeof(struct likelihood_settings)},
    .set = likelihood_set,
    .terms = {.rows.kind = ROW_DFT, .divisor = PER_ROW},
};

// Defaults are those of Hugging Face's TRL.
#define GAMMA                0.5
#define ALPHA                0.5
#define TAU                  0.05
#define CLIP                 0.2
#define RATIO_MAX            5
#define SAMPLING_MAX         3
#define TEMPERATURE          1
#define TEMPERATURE_NEGATIVE 1.05

struct dpo_settings {
    int kind, defer, divergence; // kind: enum pair_kind, divergence: enum divergence
    double beta, smoothing, gamma, tau, sft, alpha, ld_alpha;
};

// Properties of the kinds of pairs besides their cost.
static const struct pair_traits {
    bool mean;     // S is the mean over a sequence's rows
    bool alone;    // needs no reference
    bool each;     // the cost is not a function of the difference
    bool smoothed; // supports e
} pair_traits[] = {
    [PAIR_SIGMOID] = {.smoothed = true},
    [PAIR_ROBUST] = {.smoothed = true},
    [PAIR_IPO] = {.mean = true},
    [PAIR_HINGE] = {0},
    [PAIR_SIMPO] = {.mean = true, .alone = true, .smoothed = true},
    [PAIR_NORM] = {.mean = true, .smoothed = true},
    [PAIR_CPO] = {.alone = true, .smoothed = true},
    [PAIR_EXO] = {.smoothed = true},
    [PAIR_DISCOPOP] = {0},
    [PAIR_NCA] = {.each = true},
    [PAIR_BCO] = {.each = true},
    [PAIR_SPPO] = {.each = true},
    [PAIR_APO_ZERO] = {.each = true},
    [PAIR_APO_DOWN] = {.each = true},
    [PAIR_ODDS] = {.mean = true, .alone = true, .each = true},
};

static const struct option dpo_options[] = {
    {OPTION("kind", CHOICE, struct dpo_settings, kind), .initial = PAIR_SIGMOID,
     .choices = OPTION_CHOICES("sigmoid", "robust", "ipo", "hinge", "simpo", "sigmoid_norm", "cpo", "exo_pair",
                               "discopop", "nca_pair", "bco_pair", "sppo_hard", "apo_zero", "apo_down"),
     .help = "cost of a pair by its log-probs; ipo, simpo and sigmoid_norm use each sequence's mean; simpo and cpo "
             "have no reference"},
    {OPTION("beta", NUMBER, struct dpo_settings, beta), .minimum = 1e-6, .maximum = 1e6, .initial = 0.1,
     .help = "factor of the difference; for ipo tau"},
    {OPTION("smoothing", NUMBER, struct dpo_settings, smoothing), .maximum = 0.5,
     .help = "probability that a pair is reversed, for sigmoid, robust, simpo, sigmoid_norm, cpo and exo_pair, "
             "which requires it"},
    {OPTION("gamma", NUMBER, struct dpo_settings, gamma), .maximum = 1e6, .initial = GAMMA,
     .help = "margin that simpo subtracts from beta times the difference"},
    {OPTION("tau", NUMBER, struct dpo_settings, tau), .minimum = 1e-6, .maximum = 1, .initial = TAU,
     .help = "temperature of discopop's mixture of a logistic and an exponential cost"},
    {OPTION("sft", NUMBER, struct dpo_settings, sft), .maximum = 1e6,
     .help = "weight of the chosen sequences' mean cross-entropy, added to the pairs' cost"},
    {OPTION("divergence", CHOICE, struct dpo_settings, divergence), .initial = DIVERGENCE_REVERSE_KL,
     .choices = OPTION_CHOICES("reverse-kl", "forward-kl", "js", "alpha"),
     .help = "divergence from the reference that transforms a sequence's log-probs; simpo only supports the first"},
    {OPTION("alpha", NUMBER, struct dpo_settings, alpha), .maximum = 0.99, .initial = ALPHA,
     .help = "exponent of divergence alpha: 0 is the forward KL, near 1 the reverse"},
    {OPTION("ld_alpha", NUMBER, struct dpo_settings, ld_alpha), .maximum = 1, .initial = 1,
     .help = "factor of the log-probs, and the reference's, of a completion's tokens beyond its pair's shorter "
             "length (LD-DPO, Liu et al. 2024, arXiv 2409.06411); 1: all tokens count alike"},
    {OPTION("defer", CHOICE, struct dpo_settings, defer), .choices = OPTION_CHOICES("auto", "off"),
     .help = "in a step of one pair, run chunks with slope 1 and scale their gradient by the actual slope at the "
             "end, which saves the head in the first pass"},
    {0}};

static void dpo_set(struct objective_terms *terms, const void *of_objective)
{
    const struct dpo_settings *settings = of_objective;
    const struct pair_traits *traits = &pair_traits[settings->kind];
    terms->rows.kind = settings->sft > 0 ? ROW_CHOSEN : ROW_NONE;
    terms->rows.scale = settings->sft;
    terms->sequences = (struct sequence_terms){.kind = SEQUENCE_PAIRS,
                                               .pair = (enum pair_kind)settings->kind,
                                               .divergence = (enum divergence)settings->divergence,
                                               .alpha = settings->alpha,
                                               .mean = traits->mean,
                                               .beta = settings->beta,
                                               .smoothing = settings->smoothing,
                                               .gamma = settings->gamma,
                                               .tau = settings->tau};
    terms->desensitised = settings->ld_alpha < 1;
    terms->beyond = settings->ld_alpha;
    // Both sequences have one slope, unless a kind or divergence has a slope for each.
    bool one_slope = settings->sft == 0 && settings->divergence == DIVERGENCE_REVERSE_KL && !traits->each;
    terms->deferred = settings->defer == 0 && one_slope;
    terms->required = traits->alone ? 0 : BATCH_REFERENCE;
}

static bool refuse_effectless(const char *objective, const char *goes_with, struct status *status)
{
    return status_set(status, STATUS_BAD_INPUT, "%s's %s; leave it out", objective, goes_with);
}

// Finds an option with no effect beside the others that is not at its default, and says what it needs, as spaco's
// does; otherwise equal trials would have two names. NULL: none.
static const char *dpo_effectless(const struct dpo_settings *settings)
{
    const struct pair_traits *traits = &pair_traits[settings->kind];
    if (!traits->smoothed && settings->smoothing > 0) {
        return "smoothing requires kind \"sigmoid\", \"robust\", \"simpo\", \"sigmoid_norm\", \"cpo\" or "
               "\"exo_pair\"";
    }
    if (settings->kind != PAIR_SIMPO && settings->gamma != GAMMA)
        return "gamma requires kind \"simpo\"";
    if (settings->kind != PAIR_DISCOPOP && settings->tau != TAU)
        return "tau requires kind \"discopop\"";
    return settings->divergence != DIVERGENCE_ALPHA && settings->alpha != ALPHA
               ? "alpha requires divergence \"alpha\""
               : NULL;
}

static bool check_pairs(const char *objective, size_t sequences, struct status *status)
{
    return sequences % 2 == 0 ||
           status_set(status, STATUS_BAD_INPUT,
                      "%s needs pairs, sequences 2i the chosen and 2i + 1 the rejected ones; the batch has %zu; "
                      "use an even number",
                      objective, sequences);
}

static bool dpo_check(const void *of_objective, size_t sequences, size_t micro_batches, struct status *status)
{
    const struct dpo_settings *settings = of_objective;
    const struct pair_traits *traits = &pair_traits[settings->kind];
    const char *kind = dpo_options[0].choices[settings->kind];
    (void)micro_batches;
    if (!check_pairs("dpo", sequences, status))
        return false;
    if (traits->alone && settings->divergence != DIVERGENCE_REVERSE_KL) {
        return status_set(status, STATUS_BAD_INPUT,
                          "dpo's kind \"%s\" has no reference to be near to; leave divergence out", kind);
    }
    if (traits->each && settings->divergence != DIVERGENCE_REVERSE_KL) {
        return status_set(status, STATUS_BAD_INPUT, "dpo's kind \"%s\" uses plain log-ratios; leave divergence out",
                          kind);
    }
    if (settings->ld_alpha < 1 && traits->mean) {
        return status_set(status, STATUS_BAD_INPUT, "dpo's kind \"%s\" uses means over tokens; leave ld_alpha out",
                          kind);
    }
    const char *goes_with = dpo_effectless(settings);
    if (goes_with)
        return refuse_effectless("dpo", goes_with, status);
    if (settings->kind == PAIR_EXO && settings->smoothing == 0) {
        return status_set(status, STATUS_BAD_INPUT,
                          "dpo's kind \"exo_pair\" compares with a pair of probabilities 1 - smoothing and "
                          "smoothing, neither of them 0; give smoothing, such as 0.001");
    }
    if (settings->kind == PAIR_ROBUST && settings->smoothing >= 0.5) {
        return status_set(status, STATUS_BAD_INPUT,
                          "dpo's kind \"robust\" divides by 1 - 2 smoothing; use a smoothing below 0.5");
    }
    return true;
}

static const struct objective dpo = {
    .name = "dpo",
    .summary = "preference of the first over the second sequence of each pair",
    .source = "Rafailov et al. 2023, arXiv 2305.18290",
    .options = {dpo_options, sizeof(struct dpo_settings)},
    .terms = {.divisor = PER_PAIR, .metrics = HAS(METRIC_MARGIN) | HAS(METRIC_ACCURACY)},
    .set = dpo_set,
    .check = dpo_check,
};

struct orpo_settings {
    double beta;
};

static const struct option orpo_options[] = {
    {OPTION("beta", NUMBER, struct orpo_settings, beta), .minimum = 1e-6, .maximum = 1e6, .initial = 0.1,
     .help = "factor of the odds ratio's cost, added to the chosen sequences' cross-entropy"},
    {0}};

static void orpo_set(struct objective_terms *terms, const void *of_objective)
{
    const struct orpo_settings *settings = of_objective;
    terms->sequences = (struct sequence_terms){
        .kind = SEQUENCE_PAIRS, .pair = PAIR_ODDS, .mean = pair_traits[PAIR_ODDS].mean, .beta = settings->beta};
}

static bool orpo_check(const void *of_objective, size_t sequences, size_t micro_batches, struct status *status)
{
    (void)of_objective, (void)micro_batches;
    return check_pairs("orpo", sequences, status);
}

static const struct objective orpo = {
    .name = "orpo",
    .summary = "cross-entropy of the first sequence of each pair, and its odds against the second",
    .source = "Hong et al. 2024, arXiv 2403.07691",
    .options = {orpo_options, sizeof(struct orpo_settings)},
    .terms = {.rows = {.kind = ROW_CHOSEN, .scale = 1},
              .divisor = PER_PAIR,
              .metrics = HAS(METRIC_MARGIN) | HAS(METRIC_ACCURACY)},
    .set = orpo_set,
    .check = orpo_check,
};

enum value_kind { VALUE_KTO, VALUE_APO_ZERO };

struct kto_settings {
    int kind; // enum value_kind
    double beta, desirable, undesirable;
};

static const struct option kto_options[] = {
    {OPTION("kind", CHOICE, struct kto_settings, kind), .choices = OPTION_CHOICES("kto", "apo_zero_unpaired"),
     .help = "kto compares a sequence's gain over the reference with the mean gain of mismatched sequences, 2i + "
             "1; apo_zero_unpaired with 0, without mismatched ones"},
    {OPTION("beta", NUMBER, struct kto_settings, beta), .minimum = 1e-6, .maximum = 1e6, .initial = 0.1,
     .help = "factor of the gain over the reference"},
    {OPTION("desirable_weight", NUMBER, struct kto_settings, desirable), .minimum = 1e-6, .maximum = 1e6,
     .initial = 1, .help = "weight of a desirable sequence's cost"},
    {OPTION("undesirable_weight", NUMBER, struct kto_settings, undesirable), .minimum = 1e-6, .maximum = 1e6,
     .initial = 1, .help = "weight of an undesirable sequence's cost"},
    {0}};

static void kto_set(struct objective_terms *terms, const void *of_objective)
{
    const struct kto_settings *settings = of_objective;
    bool mismatched = settings->kind == VALUE_KTO;
    terms->sequences =
        (struct sequence_terms){.kind = SEQUENCE_VALUE, .mismatched = mismatched, .beta = settings->beta};
    terms->desirable = settings->desirable;
    terms->undesirable = settings->undesirable;
    terms->divisor = mismatched ? PER_PAIR : PER_SEQUENCE;
    terms->metrics = HAS(METRIC_MARGIN) | (mismatched ? HAS(METRIC_KL) : 0);
}

static bool kto_check(const void *of_objective, size_t sequences, size_t micro_batches, struct status *status)
{
    const struct kto_settings *settings = of_objective;
    if (settings->kind == VALUE_APO_ZERO)
        return true;
    if (sequences % 2) {
        return status_set(
            status, STATUS_BAD_INPUT,
            "kto estimates the divergence from pairs: sequence 2i + 1 has the prompt of 2i and another completion; "
            "the batch has %zu sequences; use an even number, or kind \"apo_zero_unpaired\"",
            sequences);
    }
    return micro_batches == 1 || status_set(status, STATUS_BAD_INPUT,
                                            "kto would estimate the divergence separately in each of %zu "
                                            "micro-batches; use one, or kind \"apo_zero_unpaired\"",
                                            micro_batches);
}

static const struct objective kto = {
    .name = "kto",
    .summary = "value of desirable and undesirable sequences, without pairs",
    .source = "Ethayarajh et al. 2024, arXiv 2402.01306",
    .options = {kto_options, sizeof(struct kto_settings)},
    .terms = {.required = BATCH_REFERENCE | BATCH_DESIRABLE},
    .set = kto_set,
    .check = kto_check,
};

enum policy { POLICY_CLIP, POLICY_CISPO, POLICY_SAPO, POLICY_GSPO, POLICY_REINFORCE, POLICY_GSPO_TOKEN };
enum normalisation { BY_DAPO, BY_GRPO, BY_BNPO, BY_DR_GRPO, BY_LUSPO };

struct grpo_settings {
    int normaliser, policy, importance, estimate, sampling, entropy; // estimate: enum kl_estimate
    struct clip clip;
    double ratio_max, temperature, temperature_negative, beta, sampling_min, sampling_max, entropy_bonus, z_loss;
    size_t length, masked_group;
};

static const struct option grpo_options[] = {
    {OPTION("normaliser", CHOICE, struct grpo_settings, normaliser), .initial = BY_DAPO,
     .choices = OPTION_CHOICES("dapo", "grpo", "bnpo", "dr_grpo", "luspo"),
     .help = "divisor of the tokens' costs: number of tokens in the step; in the sequence, times the number of "
             "sequences; in the single micro-batch; sequences times length; sequences"},
    {OPTION("policy", CHOICE, struct grpo_settings, policy), .initial = POLICY_CLIP,
     .choices = OPTION_CHOICES("clip", "cispo", "sapo", "gspo", "reinforce", "gspo_token"),
     .help = "cost of a token by its ratio to the sampling policy; gspo and gspo_token use the sequence's ratio, "
             "gspo_token with each token's own advantage in its gradient"},
    {OPTION("clip_low", NUMBER, struct grpo_settings, clip.low), .maximum = 1, .initial = CLIP,
     .help =
         "with a negative advantage ratios below 1 - clip_low have no gradient, under clip, gspo and gspo_token"},
    {OPTION("clip_high", NUMBER, struct grpo_settings, clip.high), .maximum = 1e6, .initial = CLIP,
     .help =
         "with a positive advantage ratios above 1 + clip_high have no gradient, under clip, gspo and gspo_token"},
    {OPTION("dual", NUMBER, struct grpo_settings, clip.dual), .maximum = 1e6,
     .help = "with a negative advantage, largest ratio that has a gradient, under clip, gspo and gspo_token; 0: no "
             "limit"},
    {OPTION("ratio_max", NUMBER, struct grpo_settings, ratio_max), .maximum = 1e6, .initial = RATIO_MAX,
     .help = "largest factor under cispo"},
    {OPTION("temperature", NUMBER, struct grpo_settings, temperature), .minimum = 1e-6, .maximum = 1e6,
     .initial = TEMPERATURE, .help = "temperature of sapo's sigmoid, with a positive advantage"},
    {OPTION("temperature_negative", NUMBER, struct grpo_settings, temperature_negative), .minimum = 1e-6,
     .maximum = 1e6, .initial = TEMPERATURE_NEGATIVE,
     .help = "temperature of sapo's sigmoid, with another advantage"},
    {OPTION("beta", NUMBER, struct grpo_settings, beta), .maximum = 1e6,
     .help = "factor of the divergence from the reference; 0: no reference is read"},
    {OPTION("estimator", CHOICE, struct grpo_settings, estimate), .choices = OPTION_CHOICES("k3", "k2", "k1"),
     .help = "estimator of that divergence: exp(q - l) - (q - l) - 1, (l - q)^2 / 2, l - q, l a token's log-prob "
             "and q the reference's"},
    {OPTION("importance", CHOICE, struct grpo_settings, importance), .choices = OPTION_CHOICES("off", "on"),
     .help = "weight that divergence by the token's ratio"},
    {OPTION("sampling", CHOICE, struct grpo_settings, sampling),
     .choices = OPTION_CHOICES("off", "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
     .help = "weight of a token's cost (except its divergence) by the ratio of old_logprobs to sampling_logprobs, "
             "the sampling engine's: the token's ratio or its sequence's, clipped to bounds or 0 beyond them"},
    {OPTION("sampling_min", NUMBER, struct grpo_settings, sampling_min), .maximum = 1e6,
     .help = "smallest such ratio; 0: no bound"},
    {OPTION("sampling_max", NUMBER, struct grpo_settings, sampling_max), .maximum = 1e6, .initial = SAMPLING_MAX,
     .help = "largest such ratio; 0: no bound"},
    {OPTION("mask_groups", COUNT, struct grpo_settings, masked_group), .maximum = OPTION_COUNT_MAX,
     .help = "sequences per group; groups whose advantages are all 0, because their rewards are equal, are left "
             "out of the loss and its divisor; 0: keep all"},
    {OPTION("length", COUNT, struct grpo_settings, length), .maximum = OPTION_COUNT_MAX,
     .help = "tokens per completion, the constant divisor of normaliser dr_grpo"},
    {OPTION("entropy_bonus", NUMBER, struct grpo_settings, entropy_bonus), .maximum = 1e6, .unsaid = true,
     .help = "weight of the tokens' mean entropy, subtracted from the loss under every normaliser"},
    {OPTION("entropy", CHOICE, struct grpo_settings, entropy), .choices = OPTION_CHOICES("off", "on"),
     .unsaid = true,
     .help = "report the tokens' mean entropy without a bonus; costs one more pass over the logits"},
    {OPTION_Z_LOSS(struct grpo_settings)},
    {0}};

static bool of_sequences(int policy)
{
    return policy == POLICY_GSPO || policy == POLICY_GSPO_TOKEN;
}

static void grpo_set(struct objective_terms *terms, const void *of_objective)
{
    static const enum row_objective kinds[] = {
        [POLICY_CLIP] = ROW_CLIP, [POLICY_CISPO] = ROW_CISPO,         [POLICY_SAPO] = ROW_SAPO,
        [POLICY_GSPO] = ROW_NONE, [POLICY_REINFORCE] = ROW_REINFORCE, [POLICY_GSPO_TOKEN] = ROW_RATIO};
    static const unsigned bounds[] = {[POLICY_CLIP] = HAS(METRIC_CLIP_LOW) | HAS(METRIC_CLIP_HIGH),
                                      [POLICY_CISPO] = HAS(METRIC_CLIP_HIGH),
                                      [POLICY_GSPO] = HAS(METRIC_CLIP_LOW) | HAS(METRIC_CLIP_HIGH),
                                      [POLICY_GSPO_TOKEN] = HAS(METRIC_CLIP_LOW) | HAS(METRIC_CLIP_HIGH),
                                      [POLICY_REINFORCE] = 0};
    const struct grpo_settings *settings = of_objective;
    bool by_row = settings->normaliser == BY_DAPO || settings->normaliser == BY_BNPO;
    terms->rows = (struct row_terms){.kind = kinds[settings->policy],
                                     .clip = settings->clip,
                                     .ratio_max = settings->ratio_max,
                                     .temperature = settings->temperature,
                                     .temperature_negative = settings->temperature_negative,
                                     .beta = settings->beta,
                                     .importance = settings->importance,
                                     .estimate = (enum kl_estimate)settings->estimate,
                                     .z_loss = settings->z_loss,
                                     .entropy_bonus = settings->entropy_bonus,
                                     .entropy = settings->entropy || settings->entropy_bonus > 0};
    terms->weights = settings->normaliser == BY_GRPO ? ROWS_BY_SEQUENCE : ROWS_ALIKE;
    terms->divisor = by_row ? PER_ROW : PER_SEQUENCE;
    terms->length = settings->normaliser == BY_DR_GRPO ? (double)settings->length : 0;
    if (of_sequences(settings->policy)) {
        terms->sequences = (struct sequence_terms){.kind = SEQUENCE_RATIO,
                                                   .mean = true,
                                                   .clip = settings->clip,
                                                   .weighed = terms->weights == ROWS_BY_SEQUENCE,
                                                   .held = settings->policy == POLICY_GSPO_TOKEN};
    }
    terms->sampling = (struct sampling){.smallest = settings->sampling_min, .largest = settings->sampling_max};
    terms->sampling.by = settings->sampling;
    terms->masked_group = settings->masked_group;
    bool sampling = settings->sampling != SAMPLING_OFF;
    terms->required =
        BATCH_ADVANTAGES | (settings->beta > 0 ? BATCH_REFERENCE : 0) | (sampling ? BATCH_OLD | BATCH_SAMPLING : 0);
    bool ratio = settings->policy != POLICY_REINFORCE || (settings->beta > 0 && settings->importance);
    terms->optional = ratio ? BATCH_OLD : 0;
    terms->metrics = bounds[settings->policy] | (settings->beta > 0 ? HAS(METRIC_KL) : 0) |
                     (terms->rows.entropy ? HAS(METRIC_ENTROPY) : 0) |
                     (settings->z_loss > 0 ? HAS(METRIC_Z_LOSS) : 0);
}

// See dpo_effectless.
static const char *grpo_effectless(const struct grpo_settings *settings)
{
    const struct clip *clip = &settings->clip;
    bool clips = settings->policy == POLICY_CLIP || of_sequences(settings->policy);
    bool bounds = settings->sampling_min > 0 || settings->sampling_max != SAMPLING_MAX;
    bool cools = settings->temperature != TEMPERATURE || settings->temperature_negative != TEMPERATURE_NEGATIVE;
    if (!clips && (clip->low != CLIP || clip->high != CLIP || clip->dual > 0))
        return "bound (clip_low, clip_high, dual) requires policy \"clip\", \"gspo\" or \"gspo_token\"";
    if (settings->policy != POLICY_CISPO && settings->ratio_max != RATIO_MAX)
        return "ratio_max requires policy \"cispo\"";
    if (settings->policy != POLICY_SAPO && cools)
        return "temperature, of either sign, requires policy \"sapo\"";
    if (settings->beta == 0 && settings->estimate)
        return "estimator requires beta > 0";
    if (settings->sampling == SAMPLING_OFF && bounds)
        return "bound (sampling_min, sampling_max) requires sampling";
    if (settings->entropy && settings->entropy_bonus > 0)
        return "entropy is told with entropy_bonus, too";
    if (settings->beta == 0 && settings->importance)
        return "importance requires beta > 0";
    return settings->normaliser != BY_DR_GRPO && settings->length ? "length requires normaliser \"dr_grpo\"" : NULL;
}

static bool grpo_check(const void *of_objective, size_t sequences, size_t micro_batches, struct status *status)
{
    const struct grpo_settings *settings = of_objective;
    if (settings->masked_group && sequences % settings->masked_group) {
        return status_set(status, STATUS_BAD_INPUT,
                          "grpo's mask_groups is %zu, but the batch has %zu sequences; use a multiple",
                          settings->masked_group, sequences);
    }
    if (settings->sampling_max > 0 && settings->sampling_min > settings->sampling_max) {
        return status_set(status, STATUS_BAD_INPUT,
                          "grpo's sampling_min %g is more than sampling_max, %g; use less", settings->sampling_min,
                          settings->sampling_max);
    }
    if (settings->normaliser == BY_DR_GRPO && settings->length == 0) {
        return status_set(status, STATUS_BAD_INPUT,
                          "grpo's normaliser \"dr_grpo\" divides by a length that does not depend on the batch; "
                          "give length, the most tokens that a completion may have");
    }
    if (settings->normaliser == BY_BNPO && micro_batches > 1) {
        return status_set(status, STATUS_BAD_INPUT,
                          "grpo's normaliser \"bnpo\" would divide each of %zu micro-batches by its own number of "
                          "tokens; use one, or normaliser \"dapo\"",
                          micro_batches);
    }
    const char *goes_with = grpo_effectless(settings);
    if (goes_with)
        return refuse_effectless("grpo", goes_with, status);
    if (settings->clip.dual > 0 && settings->clip.dual < 1 + settings->clip.high) {
        return status_set(status, STATUS_BAD_INPUT, "grpo's dual %g is less than 1 + clip_high, %g; use more, or 0",
                          settings->clip.dual, 1 + settings->clip.high);
    }
    if (of_sequences(settings->policy) && settings->beta > 0 && settings->importance) {
        return status_set(status, STATUS_BAD_INPUT,
                          "grpo's importance needs ratios of tokens, and policy \"%s\" has none; leave it off, or "
                          "use policy \"clip\"",
                          grpo_options[1].choices[settings->policy]);
    }
    return true;
}

static const struct objective grpo = {
    .name = "grpo",
    .summary = "policy gradient by advantages of sampled sequences, with a bounded ratio",
    .source = "Shao et al. 2024, arXiv 2402.03300",
    .options = {grpo_options, sizeof(struct grpo_settings)},
    .set = grpo_set,
    .check = grpo_check,
};

const struct objective *const objectives[] = {&token_mean, &sequence_mean, &weighted_mean, &dft, &dpo,
                                              &orpo,       &kto,           &grpo,          NULL};
