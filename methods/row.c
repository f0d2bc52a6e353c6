#include "methods/row.h"
#include "kernels/transformer/spill.h"

static struct tensor hidden(struct step *step)
{
    struct model *model = step->model;
    return tensor_new(model->device, step->batch->context * step->batch->batch, model->config.width,
                      model->device->ops->dtype, CATEGORY_HIDDEN_CHECKPOINTS);
}

// The output of row l: [T B, d], chunk by chunk.
static struct tensor forward(struct step *step, size_t l, struct columns columns, struct tensor x)
{
    struct model *model = step->model;
    size_t B = step->batch->batch;
    struct kv kv = kv_new(model, x.rows, x.dtype, CATEGORY_KV_CACHE);
    struct tensor y = hidden(step);
    unit_acquire(model, unit_of_layer(l));
    for (size_t c = 0; c < columns.count; c++) {
        struct span chunk = column_span(columns, c);
        struct tensor x_c = column_rows(x, chunk, B), y_c = column_rows(y, chunk, B);
        kv_project(model, l, chunk, x_c, kv, NULL);
        cell_forward(model, l, chunk, x_c, kv, y_c, NULL, KEEP_LEAN);
    }
    unit_release(model, unit_of_layer(l));
    kv_free(model, &kv);
    return y;
}

void row_walk(struct step *step, const struct row_walk *walk)
{
    struct model *model = step->model;
    struct device *device = model->device;
    size_t layers = model->config.layers;
    struct columns columns = columns_of(step->batch->context, walk->chunk);
    struct spill inputs; // number l: [T B, d], input of layer l
    spill_open(&inputs, device, walk->inputs, layers);

    struct tensor x = hidden(step);
    embed_forward(model, step->batch, x, 0);
    for (size_t l = 0; l < layers; l++) {
        spill_put(&inputs, l, x);
        struct tensor y = forward(step, l, columns, x);
        spill_leave(&inputs, l);
        x = y;
    }

    // The gradient of the row above; it becomes that of the row's input in its place.
    struct tensor grad = x;
    head_first_pass(model, step->batch, grad, walk->head_chunk, step->loss);
    spill_want(&inputs, layers - 1);
    head_backward(model, step->batch, grad, 0, walk->head_chunk, (struct loss_weights){1, 1}, step->loss);
    unit_done(model, unit_of_head(model));
    for (size_t l = layers; l-- > 0;) {
        x = spill_get(&inputs, l);
        if (l > 0) {
            spill_want(&inputs, l - 1);
        }
        walk->backward(step, l, x, grad);
        tensor_free(device, &x);
        unit_done(model, unit_of_layer(l));
    }
    embed_backward(model, step->batch, grad, 0);
    unit_done(model, UNIT_EMBEDDING);
    tensor_free(device, &grad);
    spill_close(&inputs);
}
