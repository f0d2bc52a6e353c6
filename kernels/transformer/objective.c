#include "kernels/transformer/objective.h"
#include <string.h>

static const struct objective token_mean = {
    .name = "token-mean",
    .summary = "cross-entropy, the mean over all tokens with a target",
    .source = "what libraries train with by default",
    .rows = ROW_LIKELIHOOD,
    .averaging = MEAN_OVER_ROWS,
};
static const struct objective sequence_mean = {
    .name = "sequence-mean",
    .summary = "cross-entropy, the mean over sequences of each one's mean",
    .source = "Shao et al. 2024, arXiv 2402.03300, as GRPO weighs tokens",
    .rows = ROW_LIKELIHOOD,
    .averaging = MEAN_OVER_SEQUENCES,
};
static const struct objective weighted_mean = {
    .name = "weighted-mean",
    .summary = "cross-entropy, the mean over tokens by weights that are given",
    .source = "longbp",
    .rows = ROW_LIKELIHOOD,
    .averaging = MEAN_BY_WEIGHT,
};
static const struct objective dft = {
    .name = "dft",
    .summary = "cross-entropy times the token's own probability, which is held fixed",
    .source = "Wu et al. 2025, arXiv 2508.05629",
    .rows = ROW_DFT,
    .averaging = MEAN_OVER_ROWS,
};

const struct objective *const objectives[] = {&token_mean, &sequence_mean, &weighted_mean, &dft, NULL};

const struct objective *objective_find(const char *name)
{
    for (const struct objective *const *o = objectives; *o; o++) {
        if (strcmp((*o)->name, name) == 0) {
            return *o;
        }
    }
    return NULL;
}

// 1 / W; 0 where nothing counts, so that loss and gradient are 0.
static double scale_of(const struct batch *batch)
{
    const struct normaliser *n = &batch->normaliser;
    double total = 0;
    switch (batch->objective->averaging) {
    case MEAN_OVER_ROWS:
        total = (double)n->rows;
        break;
    case MEAN_OVER_SEQUENCES:
        total = (double)n->sequences;
        break;
    case MEAN_BY_WEIGHT:
        total = n->weight;
        break;
    case AS_SETTLED:
        total = 1;
        break;
    }
    return total > 0 ? 1 / total : 0;
}

bool objective_gathers(const struct batch *batch)
{
    return batch->objective->averaging == AS_SETTLED;
}

void objective_settle(struct device *device, const struct batch *batch, struct tensor loss)
{
    if (objective_gathers(batch) && device->status.code == STATUS_OK) {
        batch->objective->settle(device, batch, loss);
    }
}

void objective_apply(struct device *device, const struct batch *batch, struct tensor logits, size_t first_row,
                     struct loss_weights weights, bool backward, struct tensor loss)
{
    const struct objective *objective = batch->objective;
    double scale = scale_of(batch);
    struct tensor targets = tensor_rows(batch->targets, first_row, logits.rows);
    if (objective->rows == ROW_LIKELIHOOD && objective->averaging == MEAN_OVER_ROWS) {
        // Reads the logits twice instead of three times.
        op_cross_entropy(device, logits, targets, loss, weights.loss * scale, weights.grad * scale);
        return;
    }
    enum dtype statistic = dtype_statistic(logits.dtype);
    struct tensor log_prob = tensor_new(device, logits.rows, 1, statistic, CATEGORY_LOGITS);
    struct tensor logsumexp = tensor_new(device, logits.rows, 1, statistic, CATEGORY_LOGITS);
    struct tensor row_weights = tensor_rows(batch->weights, first_row, logits.rows), grad = log_prob; // in place
    op_log_prob(device, log_prob, logsumexp, logits, targets);
    bool gathers = objective_gathers(batch);
    if (gathers && !backward && device->status.code == STATUS_OK) {
        objective->gather(device, batch, log_prob, first_row);
    }
    if (backward || !gathers) {
        op_objective_rows(device, objective->rows, grad, loss, log_prob, row_weights, targets,
                          gathers ? 0 : weights.loss * scale, weights.grad * scale);
    }
    if (backward) {
        op_log_prob_backward(device, logits, logsumexp, targets, grad);
    }
    tensor_free(device, &logsumexp);
    tensor_free(device, &log_prob);
}
