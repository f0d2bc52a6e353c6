#include "kernels/objectives/objective_pass.h"
#include "kernels/base/host_memory.h"

static double total_of(enum divisor divisor, const struct normaliser *n)
{
    switch (divisor) {
    case PER_ROW:
        return (double)n->rows;
    case PER_SEQUENCE:
        return (double)n->sequences;
    case PER_PAIR:
        return (double)n->pairs;
    case PER_WEIGHT:
        break;
    }
    return n->weight;
}

// W
static double divisor_of(const struct objective_terms *terms, const struct normaliser *n)
{
    return total_of(terms->divisor, n) * (terms->length > 0 ? terms->length : 1);
}

// 1 / W; 0 if there are no rows, so that loss and gradient are 0.
static double scale_of(const struct objective_terms *terms, const struct normaliser *n)
{
    double total = divisor_of(terms, n);
    return total > 0 ? 1 / total : 0;
}

// The terms for the batch's step.
static struct objective_terms terms_of(const struct batch *batch)
{
    struct objective_terms terms = objective_terms(batch->objective, batch->settings);
    const struct normaliser *n = &batch->normaliser;
    size_t values = terms.sequences.mismatched ? n->pairs : n->sequences, others = values - n->desirable;
    if (n->desirable && others) {
        terms.sequences.desirable = (double)values / (double)n->desirable;
        terms.sequences.undesirable = -(double)values / (double)others;
    }
    // 1 / W supplies the rest.
    terms.rows.scale *= n->chosen_rows ? (double)n->pairs / (double)n->chosen_rows : 0;
    terms.rows.entropy_bonus *= n->rows ? divisor_of(&terms, n) / (double)n->rows : 0; // a mean over rows
    return terms;
}

struct tensor objective_sums_new(struct device *device, const struct batch *batch)
{
    bool watched = objective_terms(batch->objective, batch->settings).metrics;
    struct tensor loss = tensor_new(device, watched ? OBJECTIVE_SUMS : 1, 1, DTYPE_F64, CATEGORY_DATA);
    op_zero(device, loss);
    return loss;
}

// Metrics were added with the loss's 1 / W.
struct objective_sums objective_sums_read(struct device *device, const struct batch *batch, struct tensor loss)
{
    struct objective_terms terms = terms_of(batch);
    const struct normaliser *n = &batch->normaliser;
    double values[OBJECTIVE_SUMS] = {0};
    op_download(device, values, loss);
    struct objective_sums sums = {.loss = values[0]};
    for (size_t i = 0; i < OBJECTIVE_METRICS; i++) {
        bool by_value = terms.sequences.kind == SEQUENCE_VALUE;
        double count = total_of(by_value ? terms.divisor : objective_metrics[i].per, n);
        sums.metrics[i] = count > 0 ? values[1 + i] * divisor_of(&terms, n) / count : 0;
    }
    return sums;
}

bool objective_gathers(const struct batch *batch)
{
    return objective_has_sums(batch->objective, batch->settings);
}

void objective_begin(struct device *device, const struct batch *batch)
{
    if (objective_gathers(batch))
        op_zero(device, batch->sums);
}

// kl: the mean of the mismatched sequences' S over the ranks, at least 0, without a gradient. Ranks with tokens of
// the same sequences have the same S.
static double mismatched_mean(struct device *device, const struct comm *replicas, const struct batch *batch)
{
    double *sums = host_memory_try(batch->sequences, sizeof *sums), total[2] = {0};
    if (!sums) {
        status_set(&device->status, STATUS_OOM, "no room on the host for the sums of %zu sequences",
                   batch->sequences);
        return 0;
    }
    struct tensor all = tensor_new(device, 2, 1, DTYPE_F64, CATEGORY_WORKSPACE);
    op_download(device, sums, batch->sums);
    for (size_t b = 1; b < batch->sequences && !batch->idle; b += 2) {
        total[0] += sums[b];
        total[1]++;
    }
    op_upload(device, all, total);
    comm_sum(replicas, device, all);
    op_download(device, total, all);
    tensor_free(device, &all);
    free(sums);
    return total[0] > 0 ? total[0] / total[1] : 0;
}

void objective_settle(struct device *device, const struct comm *replicas, const struct batch *batch,
                      struct tensor loss)
{
    struct objective_terms terms = terms_of(batch);
    if (terms.sequences.mismatched)
        terms.sequences.baseline = mismatched_mean(device, replicas, batch);
    if (terms.sequences.kind != SEQUENCE_NONE) {
        op_sequence_costs(device, terms.sequences, batch->sums, loss, batch->counts,
                          terms.sequences.kind == SEQUENCE_RATIO ? batch->gains : batch->advantages,
                          scale_of(&terms, &batch->normaliser));
    }
}

bool objective_defers(const struct batch *batch)
{
    return batch->units.data && batch->sequences == 2 && batch->normaliser.pairs == 1;
}

double objective_settle_deferred(struct device *device, const struct batch *batch, struct tensor loss)
{
    struct objective_terms terms = terms_of(batch);
    double slopes[2] = {0}, units[2] = {0};
    objective_settle(device, &comm_self, batch, loss);
    op_download(device, slopes, batch->sums);
    op_download(device, units, batch->units);
    size_t longer = units[0] == 0; // a sequence without rows says nothing
    double slope = units[longer] == 0 ? 0 : slopes[longer] / units[longer];
    return slope * scale_of(&terms, &batch->normaliser);
}

static void gather(struct device *device, const struct batch *batch, const struct objective_terms *terms,
                   struct objective_block block)
{
    bool ratio = terms->sequences.kind == SEQUENCE_RATIO;
    struct tensor old = block.old.data ? block.old : block.log_prob;
    op_sequence_sums(device, batch->sums, block, ratio ? old : block.reference);
}

void objective_apply(struct device *device, const struct batch *batch, struct tensor logits, size_t first_row,
                     double cap, struct loss_weights weights, bool backward, struct tensor loss)
{
    struct objective_terms terms = terms_of(batch);
    double scale = weights.deferred ? 1 : scale_of(&terms, &batch->normaliser);
    struct tensor targets = tensor_rows(batch->targets, first_row, logits.rows);
    bool gathers = terms.sequences.kind != SEQUENCE_NONE;
    bool reads = row_reads_distribution(&terms.rows), spreads = row_spreads(&terms.rows);
    if (terms.rows.kind == ROW_LIKELIHOOD && terms.weights == ROWS_ALIKE && !gathers && !spreads) {
        // Reads the logits twice instead of three times.
        op_cross_entropy(device, logits, targets, loss, weights.loss * scale, weights.grad * scale, cap);
        return;
    }
    enum dtype statistic = dtype_statistic(logits.dtype);
    struct tensor log_prob = tensor_new(device, logits.rows, 1, statistic, CATEGORY_LOGITS);
    struct tensor logsumexp = tensor_new(device, logits.rows, 1, statistic, CATEGORY_LOGITS);
    struct tensor distribution = tensor_none(), none = tensor_none();
    if (reads || spreads)
        distribution = tensor_new(device, logits.rows, DISTRIBUTION, statistic, CATEGORY_LOGITS);
    struct tensor grad = log_prob; // in place
    struct objective_block block = {
        .first = first_row % batch->batch,
        .sequences = batch->sequences,
        .of = tensor_rows(batch->device_of, first_row, logits.rows),
        .targets = targets,
        .log_prob = log_prob,
        .logsumexp = terms.rows.z_loss > 0 ? logsumexp : none,
        .distribution = distribution,
        .weights = tensor_rows(batch->weights, first_row, logits.rows),
        .shares = tensor_rows(batch->shares, first_row, logits.rows),
        .old = tensor_rows(batch->old, first_row, logits.rows),
        .reference = tensor_rows(batch->reference, first_row, logits.rows),
        .counts = terms.weights == ROWS_BY_SEQUENCE ? batch->counts : none,
        .advantages = batch->advantages,
        .token_advantages = tensor_rows(batch->token_advantages, first_row, logits.rows),
        .slopes = weights.deferred ? batch->units : batch->sums,
    };
    op_log_prob(device, log_prob, logsumexp, reads ? distribution : none, logits, targets, cap);
    if (gathers && (!backward || weights.deferred))
        gather(device, batch, &terms, block);
    if (!backward)
        block.slopes = none; // not yet
    if (backward || !gathers || terms.rows.kind != ROW_NONE || terms.rows.beta != 0 || reads || spreads) {
        // The first pass has counted the loss.
        op_objective_rows(device, terms.rows, grad, loss, block, gathers && backward ? 0 : weights.loss * scale,
                          weights.grad * scale);
    }
    if (backward)
        op_log_prob_backward(device, logits, logsumexp, targets, grad, spreads ? distribution : none, cap);
    tensor_free(device, &distribution);
    tensor_free(device, &logsumexp);
    tensor_free(device, &log_prob);
}
