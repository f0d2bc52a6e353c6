#include "methods/schedule/column.h"

static void done(const struct step *step, const struct column *column, size_t unit)
{
    if (column->last) {
        unit_done(step->model, unit);
    }
}

static struct tensor hidden(struct model *model, size_t rows, enum category category)
{
    return tensor_new(model->device, rows, model->config.width, model->device->ops->dtype, category);
}

// Layer l's keys and values on the way up, of which the first `rows` are read; of the highest layer's the first
// `highest`. The next layer's are prefetched meanwhile.
static struct kv acquire_kv_upward(struct kv_store *kv, size_t l, struct stage stage, size_t rows, size_t highest)
{
    if (!slots_are_ahead(&kv->slots)) { // the walk's first column, or one layer in one slot
        kv_store_prefetch(kv, l, (struct kv_prefix){.kv = l + 1 < stage.end ? rows : highest});
    }
    if (l + 1 < stage.end) {
        kv_store_prefetch(kv, l + 1, (struct kv_prefix){.kv = l + 2 < stage.end ? rows : highest});
    }
    return kv_store_acquire(kv, l, (struct kv_prefix){0}).kv;
}

// Beside the column's last layer.
static void prefetch_next(struct model *model, struct kv_store *kv, struct column_next next)
{
    if (next.any && next.layer == 0) {
        unit_prefetch(model, UNIT_EMBEDDING);
    }
    if (next.any) {
        unit_prefetch(model, unit_of_layer(next.layer));
    }
    if (next.same && kv->slots.count > 1) {
        kv_store_prefetch(kv, next.layer, (struct kv_prefix){.kv = next.rows});
    }
}

// What of a layer is read on the way down: keys and values to the column's last, and their gradients.
static struct kv_prefix prefix_downward(const struct column *column, size_t batch)
{
    struct kv_prefix prefix = {.kv = (column->chunk.start + column->chunk.count) * batch, .fresh = column->first};
    for (size_t i = 0; i < column->segment_count; i++) {
        prefix.grad += column->segments[i].count * batch;
    }
    return prefix;
}

// Layer l's, which were prefetched, and their gradients, in the column's segments. The next layer's are prefetched
// meanwhile.
static struct kv acquire_kv_downward(const struct column *column, size_t l, size_t batch)
{
    size_t row = 0;
    struct kv_prefix prefix = prefix_downward(column, batch);
    if (l > column->stage.first) {
        kv_store_prefetch(column->kv, l - 1, prefix);
    }
    struct kv_layer layer = kv_store_acquire(column->kv, l, prefix);
    for (size_t i = 0; i < column->segment_count; i++) {
        struct key_segment *segment = &column->segments[i];
        struct kv grad = kv_rows(layer.grad, row, segment->count * batch);
        segment->grad_k = grad.k;
        segment->grad_v = grad.v;
        row += segment->count * batch;
    }
    return layer.kv;
}

void column_forward(struct step *step, struct stage stage, struct span chunk, struct kv_store *kv, struct tensor x,
                    struct tensor y, enum column_output output, struct column_next next)
{
    const struct column_options *options = step->options;
    struct model *model = step->model;
    size_t rows = chunk.count * step->batch->batch;
    bool owned = stage.first == 0;
    if (owned) {
        x = hidden(model, rows, CATEGORY_ACTIVATIONS);
        embed_forward(model, step->batch, x, chunk.start);
    }
    size_t start = chunk.start * step->batch->batch;
    for (size_t l = stage.first; l < stage.end; l++) {
        bool highest = l + 1 == stage.end;
        struct kv own = acquire_kv_upward(kv, l, stage, start, output == COLUMN_KV ? 0 : start);
        unit_acquire(model, unit_of_layer(l));
        if (highest && output != COLUMN_LOSS) {
            prefetch_next(model, kv, next);
        } else {
            unit_prefetch(model, unit_of_layer(l + 1)); // above the last layer: the head
        }
        bool continues = !highest || output != COLUMN_KV;
        struct activations cell = {0};
        kv_project(model, step->batch, l, chunk, x, own, continues ? &cell : NULL, KEEP_NOTHING);
        kv_store_offload(kv, l, start, rows);
        if (continues) {
            bool given = highest && output == COLUMN_HIDDEN;
            struct tensor above = given ? y : hidden(model, rows, CATEGORY_ACTIVATIONS);
            cell_forward(model, step->batch, l, chunk, x, own, above, &cell, KEEP_NOTHING);
            if (owned) {
                tensor_free(model->device, &x);
            }
            x = above;
            owned = !given;
        }
        unit_release(model, unit_of_layer(l));
    }
    if (output == COLUMN_LOSS) {
        prefetch_next(model, kv, next);
        head_loss(model, step->batch, x, chunk.start, options->head_chunk, step->loss);
    }
    if (owned) {
        tensor_free(model->device, &x);
    }
}

static bool under_head(const struct step *step, const struct column *column)
{
    return column->stage.end == step->model->config.layers;
}

// Behind layer l of a rebuild comes the layer above; behind the last one the head, if it is there, and the way
// down, which begins with the last one again.
static void prefetch_upward(struct model *model, const struct column *column, size_t l, size_t batch)
{
    bool highest = l + 1 == column->stage.end, top = l + 1 == model->config.layers;
    unit_prefetch(model,
                  highest && !top ? unit_of_layer(l) : unit_of_layer(l + 1)); // above the last layer: the head
    if (highest && column->kv->slots.count > 1) {
        kv_store_prefetch(column->kv, l, prefix_downward(column, batch));
    }
}

void column_rebuild(struct step *step, struct column *column)
{
    const struct column_options *options = step->options;
    struct model *model = step->model;
    struct span chunk = column->chunk;
    size_t first = column->stage.first, end = column->stage.end, B = step->batch->batch;
    size_t rows = chunk.count * B, start = chunk.start * B, read = column->cached ? start + rows : start;
    bool inner = options->inner == INNER_CHECKPOINT, top = under_head(step, column);
    enum category category = inner ? CATEGORY_HIDDEN_CHECKPOINTS : CATEGORY_ACTIVATIONS;
    struct tensor *x = column->inputs = calloc(end + 1, sizeof *x); // x[l]: [C B, d], input of layer l
    column->kept = calloc(end, sizeof *column->kept);
    CHECK(x && column->kept);

    x[first] = column->x;
    if (first == 0) {
        x[0] = hidden(model, rows, category);
        embed_forward(model, step->batch, x[0], chunk.start);
    }
    for (size_t l = first; l < end; l++) {
        enum keep how = inner ? KEEP_NOTHING : options->keep;
        bool continues = !inner || l + 1 < end || top || column->y.data;
        struct kv kv =
            acquire_kv_upward(column->kv, l, column->stage, read, inner && !top && !column->y.data ? 0 : read);
        unit_acquire(model, unit_of_layer(l));
        if (!column->cached) {
            kv_project(model, step->batch, l, chunk, x[l], kv, continues ? &column->kept[l] : NULL, how);
            kv_store_offload(column->kv, l, start, rows);
        }
        prefetch_upward(model, column, l, B);
        x[l + 1] = l + 1 < end || top ? hidden(model, rows, category) : column->y;
        if (continues) {
            cell_forward(model, step->batch, l, chunk, x[l], kv, x[l + 1], &column->kept[l], how);
        }
        unit_release(model, unit_of_layer(l));
    }
}

void column_descend(struct step *step, struct column *column)
{
    const struct column_options *options = step->options;
    struct model *model = step->model;
    struct device *device = model->device;
    struct span chunk = column->chunk;
    struct tensor *x = column->inputs, grad = column->grad;
    size_t first = column->stage.first, end = column->stage.end, B = step->batch->batch;
    bool inner = options->inner == INNER_CHECKPOINT, top = under_head(step, column);
    if (!slots_are_ahead(&column->kv->slots)) { // one layer in one slot
        kv_store_prefetch(column->kv, end - 1, prefix_downward(column, B));
    }
    if (top) {
        grad = x[end];
        head_backward(model, step->batch, grad, chunk.start, options->head_chunk, column->weights, step->loss);
        done(step, column, unit_of_head(model));
    }
    if (top && model->config.tied && !ranks_lowest(&model->ranks)) {
        done(step, column, UNIT_EMBEDDING); // this rank's part of it, that of the head
    }
    for (size_t l = end; l-- > first;) {
        struct kv kv = acquire_kv_downward(column, l, B);
        unit_acquire(model, unit_of_layer(l));
        if (inner) {
            cell_forward(model, step->batch, l, chunk, x[l], kv, tensor_none(), &column->kept[l], options->keep);
        }
        if (l > first) {
            unit_prefetch(model, unit_of_layer(l - 1));
        } else {
            prefetch_next(model, column->kv, column->next);
        }
        cell_backward(model, step->batch, l, chunk, &column->kept[l], kv, column->segments, column->segment_count,
                      grad);
        kv_store_offload_gradients(column->kv, l, chunk.start * B);
        unit_release(model, unit_of_layer(l));
        if (l > first || first == 0) {
            tensor_free(device, &x[l]);
        }
        done(step, column, unit_of_layer(l));
    }
    if (first == 0) {
        embed_backward(model, step->batch, grad, chunk.start);
        done(step, column, UNIT_EMBEDDING);
    } else if (top && first > model->lowest_trained) {
        op_copy(device, column->grad, grad);
    }
    if (top) {
        tensor_free(device, &x[end]);
    }
    free(column->kept);
    free(column->inputs);
    column->kept = NULL;
    column->inputs = NULL;
}
