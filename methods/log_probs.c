#include "methods/log_probs.h"
#include "kernels/base/observer.h"
#include "kernels/transformer/cell.h"
#include "kernels/transformer/unit.h"
#include "methods/columns.h"
#include "methods/pipeline.h"

// x: [T B, d], the input of a layer, becomes its output, chunk by chunk: nobody reads a chunk's input behind its
// own cell.
static void layer_forward(struct model *model, size_t l, struct columns columns, const struct batch *batch,
                          struct tensor x)
{
    struct device *device = model->device;
    struct kv kv = kv_new(model, x.rows, x.dtype, CATEGORY_KV_CACHE);
    unit_acquire(model, unit_of_layer(l));
    for (size_t c = 0; c < columns.count; c++) {
        struct span chunk = column_span(columns, c);
        struct tensor x_c = column_rows(x, chunk, batch->batch);
        struct tensor y_c = tensor_new(device, x_c.rows, x_c.cols, x_c.dtype, CATEGORY_ACTIVATIONS);
        kv_project(model, batch, l, chunk, x_c, kv, NULL);
        cell_forward(model, batch, l, chunk, x_c, kv, y_c, NULL, KEEP_LEAN);
        op_copy(device, x_c, y_c);
        tensor_free(device, &y_c);
    }
    unit_release(model, unit_of_layer(l));
    kv_free(model, &kv);
}

void log_prob_pass(struct model *model, const struct batch *batch, struct tensor log_prob,
                   struct log_prob_options options)
{
    struct device *device = model->device;
    struct columns columns = columns_of(batch->context, options.chunk ? options.chunk : batch->context);
    bool without = model->without_adapter;
    model->without_adapter = options.without_adapter;
    range_push(device, (struct range){.level = RANGE_STEP, .name = "log_probs"});
    struct tensor x = tensor_new(device, batch->context * batch->batch, model->config.width, device->ops->dtype,
                                 CATEGORY_ACTIVATIONS);
    if (ranks_lowest(&model->ranks)) {
        embed_forward(model, batch, x, 0);
    }
    pipeline_take_input(model, x);
    for (size_t l = model->ranks.first_layer; l < model->ranks.end_layer; l++) {
        layer_forward(model, l, columns, batch, x);
    }
    pipeline_pass_output(model, x);
    if (ranks_highest(&model->ranks)) {
        head_log_probs(model, batch, x, options.head_chunk, log_prob);
    }
    tensor_free(device, &x);
    range_pop(device);
    model->without_adapter = without;
}
