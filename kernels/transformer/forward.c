#include "kernels/transformer/forward.h"
#include "kernels/transformer/cell.h"
#include "kernels/transformer/head.h"
#include "kernels/transformer/kv_ranks.h"
#include "kernels/transformer/unit.h"

void row_forward(struct model *model, const struct batch *batch, size_t layer, size_t chunk, struct tensor x)
{
    size_t context = batch->context, B = batch->batch;
    bool whole = chunk == 0 || chunk > context || model->ranks.exchange != EXCHANGE_GATHER;
    chunk = whole ? context : chunk;
    struct kv kv = kv_new(model, x.rows, x.dtype, CATEGORY_KV_CACHE);
    unit_acquire(model, unit_of_layer(layer));
    for (size_t start = 0; start < context; start += chunk) {
        struct span span = {start, context - start < chunk ? context - start : chunk};
        kv_project(model, batch, layer, span, tensor_rows(x, start * B, span.count * B), kv, NULL);
    }
    kv = kv_gather_take(model, batch, kv);
    for (size_t start = 0; start < context; start += chunk) {
        struct span span = {start, context - start < chunk ? context - start : chunk};
        struct tensor rows = tensor_rows(x, start * B, span.count * B);
        cell_forward(model, batch, layer, span, rows, kv, rows, NULL, KEEP_LEAN);
    }
    unit_release(model, unit_of_layer(layer));
    kv_free(model, &kv);
}

void forward_pass(struct model *model, const struct batch *batch, size_t chunk, size_t head_chunk,
                  struct tensor loss)
{
    struct device *device = model->device;
    struct tensor x = tensor_new(device, batch->context * batch->batch, model->config.width, device->ops->dtype,
                                 CATEGORY_ACTIVATIONS);
    embed_forward(model, batch, x, 0);
    for (size_t layer = 0; layer < model->config.layers; layer++) {
        row_forward(model, batch, layer, chunk, x);
    }
    objective_begin(device, batch);
    head_loss(model, batch, x, 0, head_chunk, loss);
    objective_settle(device, batch, loss);
    tensor_free(device, &x);
}

double forward_loss(struct model *model, const struct batch *batch, size_t chunk, size_t head_chunk)
{
    struct device *device = model->device;
    struct tensor loss = tensor_new(device, 1, 1, DTYPE_F64, CATEGORY_DATA);
    double value = 0;
    op_zero(device, loss);
    forward_pass(model, batch, chunk, head_chunk, loss);
    unit_settle(model);
    op_download(device, &value, loss);
    tensor_free(device, &loss);
    return value;
}
