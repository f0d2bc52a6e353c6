#include "kernels/transformer/objective.h"

void batch_open(struct batch *opened, struct device *device, const int32_t *ids, const int32_t *targets,
                size_t context, size_t batch)
{
    size_t rows = context * batch;
    *opened = (struct batch){
        .context = context, .batch = batch, .normaliser.sequences = batch, .objective = objectives[0]};
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
            opened->normaliser.rows += turned_targets[to] >= 0;
        }
    }
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
    batch->normaliser.rows = 0;
    for (size_t row = 0; row < rows; row++) {
        bool last = row + B >= rows || batch->starts[row + B] != batch->starts[row];
        targets[row] = last ? NO_TARGET : targets[row];
        batch->normaliser.rows += targets[row] >= 0;
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

// Sequence b's number of rows with a target.
static size_t target_count(const struct batch *batch, const int32_t *targets, size_t b)
{
    size_t count = 0;
    for (size_t t = 0; t < batch->context; t++) {
        count += targets[t * batch->batch + b] >= 0;
    }
    return count;
}

// The rows' weights, time-major; and their sum, over the rows with a target, if they are given.
static void weigh(struct batch *batch, double *weights, const int32_t *targets, const double *given)
{
    for (size_t b = 0; b < batch->batch; b++) {
        size_t count = target_count(batch, targets, b);
        for (size_t t = 0; t < batch->context; t++) {
            size_t row = t * batch->batch + b;
            weights[row] = given ? given[b * batch->context + t] : count ? 1.0 / (double)count : 0;
            if (given && targets[row] >= 0) {
                batch->normaliser.weight += weights[row];
            }
        }
    }
}

void batch_set_objective(struct batch *batch, struct device *device, const struct objective *objective,
                         const double *weights)
{
    size_t rows = batch->context * batch->batch;
    CHECK((objective->averaging == MEAN_BY_WEIGHT && !device->ops->dataless) == (weights != NULL));
    tensor_free(device, &batch->weights);
    batch->objective = objective;
    batch->normaliser.weight = 0;
    if (objective->averaging == MEAN_OVER_ROWS) {
        return;
    }
    batch->weights = tensor_new(device, rows, 1, dtype_statistic(device->ops->dtype), CATEGORY_DATA);
    if (device->status.code != STATUS_OK || device->ops->dataless || objective->averaging == AS_SETTLED) {
        return;
    }
    int32_t *targets = malloc(rows * sizeof *targets);
    double *turned = malloc(rows * sizeof *turned);
    CHECK(targets && turned);
    op_download(device, targets, batch->targets);
    weigh(batch, turned, targets, weights);
    tensor_write(device, batch->weights, turned);
    free(turned);
    free(targets);
}

void batch_close(struct batch *batch, struct device *device)
{
    tensor_free(device, &batch->device_starts);
    free(batch->starts);
    batch->starts = NULL;
    tensor_free(device, &batch->weights);
    tensor_free(device, &batch->ids);
    tensor_free(device, &batch->targets);
}
