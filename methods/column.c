#include "methods/column.h"

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

void column_forward(struct step *step, struct stage stage, struct span chunk, struct kv *kv, struct tensor x,
                    struct tensor y, enum column_output output)
{
    const struct column_options *options = step->options;
    struct model *model = step->model;
    size_t rows = chunk.count * step->batch->batch;
    bool owned = stage.first == 0;
    if (owned) {
        x = hidden(model, rows, CATEGORY_ACTIVATIONS);
        embed_forward(model, step->batch, x, chunk.start);
    }
    for (size_t l = stage.first; l < stage.end; l++) {
        bool highest = l + 1 == stage.end;
        unit_acquire(model, unit_of_layer(l));
        kv_project(model, l, chunk, x, kv[l], NULL);
        if (!highest || output != COLUMN_KV) {
            bool given = highest && output == COLUMN_HIDDEN;
            struct tensor above = given ? y : hidden(model, rows, CATEGORY_ACTIVATIONS);
            cell_forward(model, l, chunk, x, kv[l], above, NULL, KEEP_LEAN);
            if (owned) {
                tensor_free(model->device, &x);
            }
            x = above;
            owned = !given;
        }
        unit_release(model, unit_of_layer(l));
    }
    if (output == COLUMN_LOSS) {
        head_loss(model, step->batch, x, chunk.start, options->head_chunk, step->loss);
    }
    if (owned) {
        tensor_free(model->device, &x);
    }
}

void column_backward(struct step *step, const struct column *column)
{
    const struct column_options *options = step->options;
    struct model *model = step->model;
    struct device *device = model->device;
    struct span chunk = column->chunk;
    struct kv *kv = column->kv;
    size_t first = column->stage.first, end = column->stage.end, rows = chunk.count * step->batch->batch;
    bool inner = options->inner == INNER_CHECKPOINT, top = end == model->config.layers;
    enum category category = inner ? CATEGORY_HIDDEN_CHECKPOINTS : CATEGORY_ACTIVATIONS;
    struct tensor *x = calloc(end + 1, sizeof *x); // x[l]: [C B, d], input of layer l
    struct activations *kept = calloc(end, sizeof *kept);
    CHECK(x && kept);

    x[first] = column->x;
    if (first == 0) {
        x[0] = hidden(model, rows, category);
        embed_forward(model, step->batch, x[0], chunk.start);
    }
    for (size_t l = first; l < end; l++) {
        struct activations *keep = inner ? NULL : &kept[l];
        unit_acquire(model, unit_of_layer(l));
        if (!column->cached) {
            kv_project(model, l, chunk, x[l], kv[l], keep);
        }
        x[l + 1] = l + 1 < end || top ? hidden(model, rows, category) : tensor_none();
        if (keep || x[l + 1].data) {
            cell_forward(model, l, chunk, x[l], kv[l], x[l + 1], keep, options->keep);
        }
        unit_release(model, unit_of_layer(l));
    }

    struct tensor grad = column->grad;
    if (top) {
        grad = x[end];
        head_backward(model, step->batch, grad, chunk.start, options->head_chunk, column->weights, step->loss);
        done(step, column, unit_of_head(model));
    }
    for (size_t l = end; l-- > first;) {
        unit_acquire(model, unit_of_layer(l));
        if (inner) {
            cell_forward(model, l, chunk, x[l], kv[l], tensor_none(), &kept[l], options->keep);
        }
        cell_backward(model, l, chunk, &kept[l], kv[l], column->segments + l * column->segment_count,
                      column->segment_count, grad);
        unit_release(model, unit_of_layer(l));
        if (l > first || first == 0) {
            tensor_free(device, &x[l]);
        }
        done(step, column, unit_of_layer(l));
    }
    if (first == 0) {
        embed_backward(model, step->batch, grad, chunk.start);
        done(step, column, UNIT_EMBEDDING);
    } else if (top) {
        op_copy(device, column->grad, grad);
    }
    tensor_free(device, &x[end]);
    free(kept);
    free(x);
}
