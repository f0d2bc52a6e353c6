#include "methods/column.h"

static void done(struct step *step, bool last, size_t unit)
{
    if (last) {
        unit_done(step->model, unit);
    }
}

static struct tensor hidden(struct model *model, size_t rows, enum category category)
{
    return tensor_new(model->device, rows, model->config.width, model->device->ops->dtype, category);
}

void column_forward(struct step *step, struct span chunk, struct kv *kv, enum column_output output)
{
    const struct column_options *options = step->options;
    struct model *model = step->model;
    size_t layers = model->config.layers, rows = chunk.count * step->batch->batch;
    struct tensor x = hidden(model, rows, CATEGORY_ACTIVATIONS);
    embed_forward(model, step->batch, x, chunk.start);
    for (size_t l = 0; l < layers; l++) {
        unit_acquire(model, unit_of_layer(l));
        kv_project(model, l, chunk, x, kv[l], NULL);
        if (l + 1 < layers || output == COLUMN_LOSS) {
            struct tensor y = hidden(model, rows, CATEGORY_ACTIVATIONS);
            cell_forward(model, l, chunk, x, kv[l], y, NULL, KEEP_LEAN);
            tensor_free(model->device, &x);
            x = y;
        }
        unit_release(model, unit_of_layer(l));
    }
    if (output == COLUMN_LOSS) {
        head_loss(model, step->batch, x, chunk.start, options->head_chunk, step->loss);
    }
    tensor_free(model->device, &x);
}

void column_backward(struct step *step, struct span chunk, struct kv *kv, bool cached, bool last,
                     const struct key_segment *segments, size_t segment_count, struct loss_weights weights)
{
    const struct column_options *options = step->options;
    struct model *model = step->model;
    struct device *device = model->device;
    size_t layers = model->config.layers, rows = chunk.count * step->batch->batch;
    bool inner = options->inner == INNER_CHECKPOINT;
    enum category category = inner ? CATEGORY_HIDDEN_CHECKPOINTS : CATEGORY_ACTIVATIONS;
    struct tensor *x = calloc(layers + 1, sizeof *x); // x[l]: [C B, d], input of layer l
    struct activations *kept = calloc(layers, sizeof *kept);
    CHECK(x && kept);

    x[0] = hidden(model, rows, category);
    embed_forward(model, step->batch, x[0], chunk.start);
    for (size_t l = 0; l < layers; l++) {
        struct activations *keep = inner ? NULL : &kept[l];
        unit_acquire(model, unit_of_layer(l));
        if (!cached) {
            kv_project(model, l, chunk, x[l], kv[l], keep);
        }
        x[l + 1] = hidden(model, rows, category);
        cell_forward(model, l, chunk, x[l], kv[l], x[l + 1], keep, options->keep);
        unit_release(model, unit_of_layer(l));
    }

    struct tensor grad = x[layers];
    head_backward(model, step->batch, grad, chunk.start, options->head_chunk, weights, step->loss);
    done(step, last, unit_of_head(model));
    for (size_t l = layers; l-- > 0;) {
        unit_acquire(model, unit_of_layer(l));
        if (inner) {
            cell_forward(model, l, chunk, x[l], kv[l], tensor_none(), &kept[l], options->keep);
        }
        cell_backward(model, l, chunk, &kept[l], kv[l], segments + l * segment_count, segment_count, grad);
        unit_release(model, unit_of_layer(l));
        tensor_free(device, &x[l]);
        done(step, last, unit_of_layer(l));
    }
    embed_backward(model, step->batch, grad, chunk.start);
    done(step, last, UNIT_EMBEDDING);
    tensor_free(device, &x[layers]);
    free(kept);
    free(x);
}
