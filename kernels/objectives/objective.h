// Objective: what a step minimises: a function of the rows' log-probs, l = log softmax(logits)[target], so that the
// gradient of a row's logits is g (onehot - softmax) with one number g = dL/dl per row; and, where it is asked for,
// of the rows' distributions over the vocabulary (kernels/device/row_objective.h). The walks know none of it.
//   L = (sum of w f(l) over the rows with a target + sum of what pairs or sequences cost by sums of l) / W
// One that has sums sees every log-prob in a first pass. To add one: its entry in the array
// (kernels/objectives/objectives.c); a new f in kernels/device/row_objective.h, a new cost of sums in
// kernels/device/sequence_objective.h.
#pragma once
#include "kernels/base/options.h"
#include "kernels/base/status.h"
#include "kernels/device/row_objective.h"
#include "kernels/device/sequence_objective.h"

// What w is.
enum row_weights {
    ROWS_ALIKE,       // 1
    ROWS_BY_SEQUENCE, // 1 / the sequence's number of rows with a target
    ROWS_BY_WEIGHT    // the batch's own
};

// What W is, of the whole step (struct normaliser).
enum divisor {
    PER_ROW,      // the number of rows with a target
    PER_SEQUENCE, // that of sequences
    PER_PAIR,
    PER_WEIGHT // the sum of the weights of rows with a target
};

// What objectives read of the batch.
enum batch_value {
    BATCH_WEIGHTS = 1,
    BATCH_OLD = 2,
    BATCH_REFERENCE = 4,
    BATCH_ADVANTAGES = 8,
    BATCH_DESIRABLE = 16,
    BATCH_SAMPLING = 32
};

// How the log-probs of the engine that sampled tokens, which computes otherwise than the model does, correct what
// those cost: by a factor exp(o - its own) of each token, or of the sum over a sequence's, either cut to the bounds
// or, beyond them, 0. Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training".
struct sampling {
    enum {
        SAMPLING_OFF,
        SAMPLING_TOKEN_TRUNCATE,
        SAMPLING_TOKEN_MASK,
        SAMPLING_SEQUENCE_TRUNCATE,
        SAMPLING_SEQUENCE_MASK
    } by;
    double smallest, largest;
};

struct objective_terms {
    struct row_terms rows; // of ROW_CHOSEN the scale is that of the mean over the chosen sequences' rows
    struct sequence_terms sequences;
    enum row_weights weights;
    enum divisor divisor;
    double length;     // divides too; 0: nothing does
    bool desensitised; // rows beyond as many as both of a pair have count `beyond` in S. Liu et al. 2024,
    double beyond;     // arXiv 2409.06411
    bool deferred;     // where it can, a walk multiplies the slope of a pair's sums in afterwards
    struct sampling sampling;
    size_t masked_group; // sequences of a group, which counts in nothing where all advantages are 0; 0: none
    double desirable, undesirable; // weights of sequences that are and are not
    unsigned required, optional;   // sums of enum batch_value
    unsigned metrics;              // that it has: a sum of 1 << enum objective_metric
};

// What a step is watched by beside its loss; enum objective_metric says what each is.
struct metric {
    const char *name;
    enum divisor per; // the mean is over all rows with a target, or over all pairs
};
extern const struct metric objective_metrics[OBJECTIVE_METRICS];

struct objective {
    const char *name;
    const char *summary; // one line
    const char *source;
    struct option_table options;  // what it can be asked
    struct objective_terms terms; // but for what the settings say, which set writes; NULL: they say nothing
    void (*set)(struct objective_terms *terms, const void *settings);
    // What the table cannot say alone of settings, and of a step of so many sequences in so many micro-batches;
    // NULL: nothing. False sets status.
    bool (*check)(const void *settings, size_t sequences, size_t micro_batches, struct status *status);
};

// All objectives, ending in NULL; the first is that of a batch for which none is chosen.
extern const struct objective *const objectives[];
const struct objective *objective_find(const char *name);
// settings, here and below: NULL for the first, which then has its defaults, and for one without options.
struct objective_terms objective_terms(const struct objective *objective, const void *settings);
// How many sequences, one after another, belong together.
size_t objective_together(const struct objective *objective, const void *settings);
// Whether a first pass must see every row's log-prob.
bool objective_has_sums(const struct objective *objective, const void *settings);
// Whether tokens are all that it is of: no values, no pairs.
bool objective_of_tokens(const struct objective *objective, const void *settings);
// Whether the number of a sequence's rows is read.
bool objective_counts(const struct objective_terms *terms);
bool objective_check(const struct objective *objective, const void *settings, size_t sequences,
                     size_t micro_batches, struct status *status);

// Whether it has a metric.
bool objective_has_metric(const struct objective *objective, const void *settings, enum objective_metric metric);
