// Objective: the function that a step minimises. It depends on the rows' log-probs, l = log
// softmax(logits)[target], so that the gradient of a row's logits is g (onehot - softmax) with one number g = dL/dl
// per row; optionally on the rows' distributions over the vocabulary (kernels/device/row_objective.h). Schedules
// are independent of it.
// L = (sum of w f(l) over rows with a target + sum of costs of pairs or sequences, by sums of l) / W
// An objective with sums needs every log-prob in a first pass. To add one: its entry in the array
// (kernels/objectives/objectives.c); a new f in kernels/device/row_objective.h, a new cost of sums in
// kernels/device/sequence_objective.h.
#pragma once
#include "kernels/base/options.h"
#include "kernels/base/status.h"
#include "kernels/device/row_objective.h"
#include "kernels/device/sequence_objective.h"

// The weight w of a row.
enum row_weights {
    ROWS_ALIKE,       // 1
    ROWS_BY_SEQUENCE, // 1 / the sequence's number of rows with a target
    ROWS_BY_WEIGHT    // the batch's weights
};

// The divisor W, over the whole step (struct normaliser).
enum divisor {
    PER_ROW,      // rows with a target
    PER_SEQUENCE, // sequences
    PER_PAIR,
    PER_WEIGHT // the sum of the weights of rows with a target
};

// Inputs of objectives from the batch.
enum batch_value {
    BATCH_WEIGHTS = 1,
    BATCH_OLD = 2,
    BATCH_REFERENCE = 4,
    BATCH_ADVANTAGES = 8,
    BATCH_DESIRABLE = 16,
    BATCH_SAMPLING = 32
};

// Correction for log-probs of a sampling engine that computes differently from the model: a factor exp(o - the
// engine's) per token, or of the sum over a sequence, either clipped to the bounds or 0 beyond them. Yao et al.
// 2025, "Your efficient RL framework secretly brings you off-policy RL training".
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
    struct row_terms rows; // the scale of ROW_CHOSEN is for the mean over the chosen sequences' rows
    struct sequence_terms sequences;
    enum row_weights weights;
    enum divisor divisor;
    double length;     // a further divisor; 0: none
    bool desensitised; // rows beyond the shorter sequence of a pair have weight `beyond` in S. Liu et al. 2024,
    double beyond;     // arXiv 2409.06411
    bool deferred;     // if possible, the slope of a pair's sums is multiplied in afterwards
    struct sampling sampling;
    size_t masked_group;           // sequences of a group, which is ignored if all its advantages are 0; 0: none
    double desirable, undesirable; // weights of desirable and other sequences
    unsigned required, optional;   // sums of enum batch_value
    unsigned metrics;              // its metrics: a sum of 1 << enum objective_metric
};

// A metric that monitors a step beside its loss (enum objective_metric).
struct metric {
    const char *name;
    enum divisor per; // mean over all rows with a target, or over all pairs
};
extern const struct metric objective_metrics[OBJECTIVE_METRICS];

struct objective {
    const char *name;
    const char *summary; // one line
    const char *source;
    struct option_table options;  // what it can be asked
    struct objective_terms terms; // without the settings' part, which `set` adds; NULL: settings do not affect it
    void (*set)(struct objective_terms *terms, const void *settings);
    // Checks settings, and a step of this many sequences and micro-batches, beyond the table; NULL: none. Returns
    // false and sets the status.
    bool (*check)(const void *settings, size_t sequences, size_t micro_batches, struct status *status);
};

// All objectives, ending in NULL; the first is a batch's default.
extern const struct objective *const objectives[];
const struct objective *objective_find(const char *name);
// settings, here and below: NULL for the first, with its defaults, and for one without options.
struct objective_terms objective_terms(const struct objective *objective, const void *settings);
// Number of consecutive sequences that belong together.
size_t objective_together(const struct objective *objective, const void *settings);
// Tells whether a first pass must see every row's log-prob.
bool objective_has_sums(const struct objective *objective, const void *settings);
// Tells whether it needs only tokens: no values, no pairs.
bool objective_of_tokens(const struct objective *objective, const void *settings);
// Tells whether it reads the number of a sequence's rows.
bool objective_counts(const struct objective_terms *terms);
bool objective_check(const struct objective *objective, const void *settings, size_t sequences,
                     size_t micro_batches, struct status *status);

// Tells whether it has a metric.
bool objective_has_metric(const struct objective *objective, const void *settings, enum objective_metric metric);
