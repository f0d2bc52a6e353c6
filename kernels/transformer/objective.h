// Objective: what a step minimises: a function of the rows' log-probs alone, l = log softmax(logits)[target], so
// that the gradient of a row's logits is g (onehot - softmax) with one number g = dL/dl per row. The walks know
// none of it.
//   L = sum of w f(l) / W over the rows with a target
// One that is a function of more than rows (of sums over sequences, say) sees every log-prob in a first pass, and
// then sets each row's w. To add one: its entry in the array; a new f in kernels/base/row_objective.h.
#pragma once
#include "kernels/base/options.h"
#include "kernels/transformer/batch.h"

// What w is, and W, which is of the whole step (struct normaliser).
enum averaging {
    MEAN_OVER_ROWS,      // 1, and the number of rows with a target
    MEAN_OVER_SEQUENCES, // 1 / the sequence's number of such rows, and the number of sequences
    MEAN_BY_WEIGHT,      // the batch's own, and their sum
    AS_SETTLED           // what settle writes, and 1
};

struct objective {
    const char *name;
    const char *summary; // one line
    const char *source;
    struct option_table options;
    enum row_objective rows; // f
    enum averaging averaging;
    // With AS_SETTLED, else NULL. gather: in a first pass over all rows, these from first_row on; blocks come in
    // order, and the one of row 0 begins another pass. log_prob: [n, 1], 0 without a target. settle: after the
    // last, the loss, and dL/df of every row into the batch's weights.
    void (*gather)(struct device *device, const struct batch *batch, struct tensor log_prob, size_t first_row);
    void (*settle)(struct device *device, const struct batch *batch, struct tensor loss);
};

// All objectives, ending in NULL; the first is that of a batch for which none is chosen.
extern const struct objective *const objectives[];
const struct objective *objective_find(const char *name);

// The factors of a column's rows in the loss that is reported and in the gradient: SpaCO's differ.
struct loss_weights {
    double loss, grad;
};

// Whether a first pass must see every row's log-prob: head_loss over all columns from the left, then
// objective_settle, which does nothing for other objectives.
bool objective_gathers(const struct batch *batch);
void objective_settle(struct device *device, const struct batch *batch, struct tensor loss);

// logits: [n, V], of the batch's rows from first_row on, become the gradient of themselves; without backward they
// are spent. loss += these rows' share; an objective that gathers does that instead without backward, and settles
// its loss.
void objective_apply(struct device *device, const struct batch *batch, struct tensor logits, size_t first_row,
                     struct loss_weights weights, bool backward, struct tensor loss);
