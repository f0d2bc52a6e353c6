#include "methods/schedule/chunk_work.h"

static void done(const struct step *step, const struct chunk_work *work, size_t unit)
{
    if (work->last)
        unit_done(step->model, unit);
}

static struct tensor hidden(struct model *model, size_t rows, enum category category)
{
    return tensor_new(model->device, rows, model->config.width, model->device->ops->dtype, category);
}

// Acquires layer l's carry on the way up, of which the prefix is read. projects: no cell of the highest layer runs.
// Prefetches the next layer's.
static struct carry acquire_kv_upward(struct kv_store *kv, size_t l, struct segment segment,
                                      struct kv_prefix prefix, bool projects)
{
    prefix.projects = projects && l + 1 == segment.end;
    if (!double_buffer_is_ahead(&kv->buffers)) // the first chunk, or one layer in one buffer
        kv_store_prefetch(kv, l, prefix);
    prefix.projects = projects && l + 2 == segment.end;
    if (l + 1 < segment.end)
        kv_store_prefetch(kv, l + 1, prefix);
    return kv_store_acquire(kv, l, (struct kv_prefix){0}).kv;
}

// Prefetches during the chunk's last layer.
static void prefetch_next(struct model *model, struct kv_store *kv, struct chunk_next next)
{
    if (next.any && next.layer == 0)
        unit_prefetch(model, UNIT_EMBEDDING);
    if (next.any)
        unit_prefetch(model, unit_of_layer(next.layer));
    if (next.same && kv->buffers.count > 1)
        kv_store_prefetch(kv, next.layer, (struct kv_prefix){.start = next.start, .kv = next.rows});
}

// The part of a layer read on the way down: keys and values up to the chunk's end, and their gradients.
static struct kv_prefix prefix_downward(const struct chunk_work *work, size_t batch)
{
    size_t start = work->chunk.start * batch;
    struct kv_prefix prefix = {start, .kv = start + work->chunk.count * batch, .fresh = work->first};
    prefix.grad = work->whole ? prefix.kv : 0;
    for (size_t i = 0; !work->whole && i < work->key_segment_count; i++)
        prefix.grad += work->key_segments[i].count * batch;
    return prefix;
}

// Acquires layer l's prefetched carry, and its gradients, in the chunk's key segments. Prefetches the next layer's.
static struct carry acquire_kv_downward(const struct chunk_work *work, size_t l, size_t batch)
{
    size_t row = 0;
    struct kv_prefix prefix = prefix_downward(work, batch);
    if (l > work->segment.first)
        kv_store_prefetch(work->kv, l - 1, prefix);
    struct kv_layer layer = kv_store_acquire(work->kv, l, prefix);
    if (work->whole)
        work->key_segments[0] = carry_segment_of(layer.grad, work->chunk);
    for (size_t i = 0; !work->whole && i < work->key_segment_count; i++) {
        struct carry_segment *segment = &work->key_segments[i];
        segment->grad = carry_rows(layer.grad, row, segment->count * batch);
        row += segment->count * batch;
    }
    return layer.kv;
}

void chunk_forward(struct step *step, struct segment segment, struct span chunk, struct kv_store *kv,
                   struct tensor x, struct tensor y, enum chunk_output output, struct chunk_next next)
{
    const struct chunk_options *options = step->options;
    struct model *model = step->model;
    size_t rows = chunk.count * step->batch->batch;
    bool owned = segment.first == 0;
    if (owned) {
        x = hidden(model, rows, CATEGORY_ACTIVATIONS);
        embed_forward(model, step->batch, x, chunk.start);
    }
    size_t start = chunk.start * step->batch->batch;
    for (size_t l = segment.first; l < segment.end; l++) {
        bool highest = l + 1 == segment.end;
        struct carry own =
            acquire_kv_upward(kv, l, segment, (struct kv_prefix){start, .kv = start}, output == CHUNK_KV);
        unit_acquire(model, unit_of_layer(l));
        if (highest && output != CHUNK_LOSS)
            prefetch_next(model, kv, next);
        else
            unit_prefetch(model, unit_of_layer(l + 1)); // after the last layer: the head
        bool continues = !highest || output != CHUNK_KV;
        struct activations cell = {0};
        kv_project(model, step->batch, l, chunk, x, own, continues ? &cell : NULL, KEEP_NOTHING);
        kv_store_offload(kv, l, start, rows);
        if (continues) {
            bool given = highest && output == CHUNK_HIDDEN, chooses = highest && output == CHUNK_CHOICES;
            struct tensor above = given ? y : chooses ? tensor_none() : hidden(model, rows, CATEGORY_ACTIVATIONS);
            cell_forward(model, step->batch, l, chunk, x, own, above, &cell, KEEP_NOTHING);
            if (owned)
                tensor_free(model->device, &x);
            x = above;
            owned = !given;
        }
        unit_release(model, unit_of_layer(l));
    }
    if (output == CHUNK_LOSS) {
        prefetch_next(model, kv, next);
        head_loss(model, step->batch, x, chunk.start, options->head_chunk, step->loss);
    }
    if (owned)
        tensor_free(model->device, &x);
}

static bool under_head(const struct step *step, const struct chunk_work *work)
{
    return work->segment.end == step->model->config.layers;
}

// After layer l of a recomputation prefetches the layer above; after the last one the head, if it is on this rank,
// and the first layer of the way down, which is the last one again.
static void prefetch_upward(struct model *model, const struct chunk_work *work, size_t l, size_t batch)
{
    bool highest = l + 1 == work->segment.end, top = l + 1 == model->config.layers;
    unit_prefetch(model,
                  highest && !top ? unit_of_layer(l) : unit_of_layer(l + 1)); // after the last layer: the head
    if (highest && work->kv->buffers.count > 1)
        kv_store_prefetch(work->kv, l, prefix_downward(work, batch));
}

void chunk_rebuild(struct step *step, struct chunk_work *work)
{
    const struct chunk_options *options = step->options;
    struct model *model = step->model;
    struct span chunk = work->chunk;
    size_t first = work->segment.first, end = work->segment.end, B = step->batch->batch;
    size_t rows = chunk.count * B, start = chunk.start * B;
    struct kv_prefix read = {start, .kv = work->cached ? start + rows : start};
    bool inner = options->inner == INNER_CHECKPOINT, top = under_head(step, work);
    enum category category = inner ? CATEGORY_HIDDEN_CHECKPOINTS : CATEGORY_ACTIVATIONS;
    struct tensor *x = work->inputs = calloc(end + 1, sizeof *x); // x[l]: [C B, d], input of layer l
    work->kept = calloc(end, sizeof *work->kept);
    CHECK(x && work->kept);

    x[first] = work->x;
    if (first == 0) {
        x[0] = hidden(model, rows, category);
        embed_forward(model, step->batch, x[0], chunk.start);
    }
    for (size_t l = first; l < end; l++) {
        enum keep how = inner ? KEEP_NOTHING : options->keep;
        bool continues = !inner || l + 1 < end || top || work->y.data;
        struct carry kv = acquire_kv_upward(work->kv, l, work->segment, read, inner && !top && !work->y.data);
        unit_acquire(model, unit_of_layer(l));
        if (!work->cached) {
            kv_project(model, step->batch, l, chunk, x[l], kv, continues ? &work->kept[l] : NULL, how);
            kv_store_offload(work->kv, l, start, rows);
        }
        prefetch_upward(model, work, l, B);
        x[l + 1] = l + 1 < end || top ? hidden(model, rows, category) : work->y;
        if (continues)
            cell_forward(model, step->batch, l, chunk, x[l], kv, x[l + 1], &work->kept[l], how);
        unit_release(model, unit_of_layer(l));
    }
}

void chunk_descend(struct step *step, struct chunk_work *work)
{
    const struct chunk_options *options = step->options;
    struct model *model = step->model;
    struct device *device = model->device;
    struct span chunk = work->chunk;
    struct tensor *x = work->inputs, grad = work->grad;
    size_t first = work->segment.first, end = work->segment.end, B = step->batch->batch;
    bool inner = options->inner == INNER_CHECKPOINT, top = under_head(step, work);
    if (!double_buffer_is_ahead(&work->kv->buffers)) // one layer in one buffer
        kv_store_prefetch(work->kv, end - 1, prefix_downward(work, B));
    if (top) {
        grad = x[end];
        head_backward(model, step->batch, grad, chunk.start, options->head_chunk, work->weights, step->loss);
        done(step, work, unit_of_head(model));
    }
    if (top && model->config.tied && !ranks_lowest(&model->ranks))
        done(step, work, UNIT_EMBEDDING); // this rank's part, which is the head's
    for (size_t l = end; l-- > first;) {
        struct carry kv = acquire_kv_downward(work, l, B);
        unit_acquire(model, unit_of_layer(l));
        if (inner)
            cell_forward(model, step->batch, l, chunk, x[l], kv, tensor_none(), &work->kept[l], options->keep);
        if (l > first)
            unit_prefetch(model, unit_of_layer(l - 1));
        else
            prefetch_next(model, work->kv, work->next);
        cell_backward(model, step->batch, l, chunk, &work->kept[l], kv, work->key_segments, work->key_segment_count,
                      grad);
        kv_store_offload_gradients(work->kv, l, chunk.start * B);
        unit_release(model, unit_of_layer(l));
        if (l > first || first == 0)
            tensor_free(device, &x[l]);
        done(step, work, unit_of_layer(l));
    }
    if (first == 0) {
        embed_backward(model, step->batch, grad, chunk.start);
        done(step, work, UNIT_EMBEDDING);
    } else if (top && first > model->lowest_trained) {
        op_copy(device, work->grad, grad);
    }
    if (top)
        tensor_free(device, &x[end]);
    free(work->kept);
    free(work->inputs);
    work->kept = NULL;
    work->inputs = NULL;
}
