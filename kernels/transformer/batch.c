#include "kernels/transformer/objective.h"
#include <math.h>

// Adds sequence b's rows to the counts.
static void count_rows(struct normaliser *normaliser, const int32_t *targets, size_t context, size_t batch)
{
    for (size_t t = 0; t < context; t++) {
        for (size_t b = 0; b < batch; b++) {
            bool counts = targets[t * batch + b] >= 0;
            normaliser->rows += counts;
            normaliser->chosen_rows += counts && b % 2 == 0;
        }
    }
}

void batch_open(struct batch *opened, struct device *device, const int32_t *ids, const int32_t *targets,
                size_t context, size_t batch)
{
    size_t rows = context * batch;
    *opened = (struct batch){.context = context,
                             .batch = batch,
                             .normaliser = {.sequences = batch, .pairs = batch / 2},
                             .objective = objectives[0]};
    opened->ids = tensor_new(device, rows, 1, DTYPE_I32, CATEGORY_DATA);
    opened->targets = tensor_new(device, rows, 1, DTYPE_I32, CATEGORY_DATA);
    if (!ids) {
        return;
    }
    int32_t *turned_ids = malloc(rows * sizeof *turned_ids),
            *turned_targets = malloc(rows * sizeof *turned_targets);
    CHECK(turned_ids && turned_targets);
    for (size_t b = 0; b < batch; b++) {
        for (size_t t = 0; t < context; t++) {
            size_t from = b * context + t, to = t * batch + b;
            turned_ids[to] = ids[from];
            turned_targets[to] = targets ? targets[from] : t + 1 < context ? ids[from + 1] : NO_TARGET;
        }
    }
    count_rows(&opened->normaliser, turned_targets, context, batch);
    op_upload(device, opened->ids, turned_ids);
    op_upload(device, opened->targets, turned_targets);
    free(turned_ids);
    free(turned_targets);
}

// The last token of a document has no target.
static void end_targets(struct batch *batch, struct device *device)
{
    size_t rows = batch->context * batch->batch, B = batch->batch;
    int32_t *targets = malloc(rows * sizeof *targets);
    CHECK(targets);
    op_download(device, targets, batch->targets);
    batch->normaliser.rows = batch->normaliser.chosen_rows = 0;
    for (size_t row = 0, sequence = 0; row < rows; row++, sequence = sequence + 1 < B ? sequence + 1 : 0) {
        bool last = row + B >= rows || batch->starts[row + B] != batch->starts[row];
        targets[row] = last ? NO_TARGET : targets[row];
        batch->normaliser.rows += targets[row] >= 0;
        batch->normaliser.chosen_rows += targets[row] >= 0 && sequence % 2 == 0;
    }
    op_upload(device, batch->targets, targets);
    free(targets);
}

void batch_set_documents(struct batch *batch, struct device *device, const int32_t *documents)
{
    size_t rows = batch->context * batch->batch, B = batch->batch;
    CHECK(!batch->starts && !batch->weights.data);
    batch->starts = malloc(rows * sizeof *batch->starts);
    CHECK(batch->starts);
    for (size_t row = 0; row < rows; row++) {
        size_t t = row / B, at = row % B * batch->context + t;
        CHECK(t == 0 || documents[at - 1] <= documents[at]);
        bool first = t == 0 || documents[at - 1] < documents[at];
        batch->starts[row] = first ? (int32_t)t : batch->starts[row - B];
    }
    batch->documents = 0xcbf29ce484222325; // FNV-1a (Fowler, Noll & Vo 1991)
    for (size_t row = 0; row < rows; row++) {
        batch->documents = (batch->documents ^ (uint64_t)batch->starts[row]) * 0x100000001b3;
    }
    batch->device_starts = tensor_new(device, rows, 1, DTYPE_I32, CATEGORY_DATA);
    if (device->status.code == STATUS_OK && !device->ops->dataless) {
        op_upload(device, batch->device_starts, batch->starts);
        end_targets(batch, device);
    }
}

struct tensor batch_starts(const struct batch *batch, struct span tokens)
{
    return tensor_rows(batch->device_starts, tokens.start * batch->batch, tokens.count * batch->batch);
}

static void release(struct batch *batch, struct device *device)
{
    tensor_free(device, &batch->units);
    tensor_free(device, &batch->sums);
    tensor_free(device, &batch->counts);
    tensor_free(device, &batch->advantages);
    tensor_free(device, &batch->reference);
    tensor_free(device, &batch->old);
    tensor_free(device, &batch->weights);
}

// Of the statistics' dtype; values: [batch, count], or NULL: not numbers.
static struct tensor place(const struct batch *batch, struct device *device, size_t count, const double *values)
{
    size_t rows = count * batch->batch;
    struct tensor placed = tensor_new(device, rows, 1, dtype_statistic(device->ops->dtype), CATEGORY_DATA);
    if (device->status.code != STATUS_OK || device->ops->dataless) {
        return placed;
    }
    double *turned = malloc(rows * sizeof *turned);
    CHECK(turned);
    for (size_t b = 0; b < batch->batch; b++) {
        for (size_t t = 0; t < count; t++) {
            turned[t * batch->batch + b] = values ? values[b * count + t] : NAN;
        }
    }
    tensor_write(device, placed, turned);
    free(turned);
    return placed;
}

// What the targets say of the sequences, of which a pair's S may be means; and the sum of the weights of rows that
// have one.
static void count(struct batch *batch, struct device *device, const double *weights, bool mean)
{
    size_t B = batch->batch, rows = batch->context * B;
    int32_t *targets = malloc(rows * sizeof *targets), *counts = calloc(B, sizeof *counts);
    CHECK(targets && counts);
    op_download(device, targets, batch->targets);
    for (size_t b = 0; b < B; b++) {
        for (size_t t = 0; t < batch->context; t++) {
            bool is_counted = targets[t * B + b] >= 0;
            counts[b] += is_counted;
            batch->normaliser.weight += is_counted && weights ? weights[b * batch->context + t] : 0;
        }
    }
    if (batch->counts.data) {
        op_upload(device, batch->counts, counts);
    }
    if (batch->units.data) {
        double units[2];
        for (size_t b = 0; b < 2; b++) {
            units[b] = (b ? -1 : 1) * (mean ? objective_share(counts[b]) : 1);
        }
        op_upload(device, batch->units, units);
    }
    free(counts);
    free(targets);
}

void batch_set_objective(struct batch *batch, struct device *device, const struct objective *objective,
                         const void *settings, const struct batch_values *values)
{
    static const struct batch_values none;
    bool dataless = device->ops->dataless;
    const struct batch_values *given = values && !dataless ? values : &none;
    struct objective_terms terms = objective_terms(objective, settings);
    unsigned required = terms.required, optional = dataless ? terms.optional : 0;
    CHECK(dataless || !(required & BATCH_WEIGHTS) || given->weights);
    CHECK(dataless || !(required & BATCH_ADVANTAGES) || given->advantages);
    release(batch, device);
    batch->objective = objective;
    batch->settings = settings;
    batch->normaliser.weight = 0;
    optional |= given->old_logprobs ? terms.optional & BATCH_OLD : 0;
    if (required & BATCH_WEIGHTS) {
        batch->weights = place(batch, device, batch->context, given->weights);
    }
    if ((required | optional) & BATCH_OLD) {
        batch->old = place(batch, device, batch->context, given->old_logprobs);
    }
    if (required & BATCH_REFERENCE) {
        batch->reference = place(batch, device, batch->context, given->reference_logprobs);
    }
    if (required & BATCH_ADVANTAGES) {
        batch->advantages = place(batch, device, 1, given->advantages);
    }
    if (objective_counts(&terms)) {
        batch->counts = tensor_new(device, batch->batch, 1, DTYPE_I32, CATEGORY_DATA);
    }
    if (terms.sequences.kind != SEQUENCE_NONE) {
        batch->sums = tensor_new(device, batch->batch, 1, DTYPE_F64, CATEGORY_DATA);
    }
    if (terms.deferred && batch->batch == 2) {
        batch->units = tensor_new(device, 2, 1, DTYPE_F64, CATEGORY_DATA);
    }
    if (device->status.code == STATUS_OK && !dataless) {
        count(batch, device, batch->weights.data ? given->weights : NULL, terms.sequences.mean);
    }
}

void batch_close(struct batch *batch, struct device *device)
{
    tensor_free(device, &batch->device_starts);
    free(batch->starts);
    batch->starts = NULL;
    release(batch, device);
    tensor_free(device, &batch->ids);
    tensor_free(device, &batch->targets);
}
