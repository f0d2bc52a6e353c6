#include "kernels/layers/forward.h"
#include "kernels/attention/kv_ranks.h"
#include "kernels/layers/cell.h"
#include "kernels/model/unit.h"

void layer_forward(struct model *model, const struct batch *batch, size_t layer, size_t chunk, struct tensor x)
{
    size_t context = batch->context, B = batch->batch;
    bool whole = chunk == 0 || chunk > context || model->ranks.exchange != EXCHANGE_GATHER;
    bool shared = batch_is_shared(batch);
    chunk = whole ? context : chunk;
    struct carry kv = carry_new(model, layer, PLACE_DEVICE, (struct carry_size){context, B, chunk});
    unit_acquire(model, unit_of_layer(layer));
    for (size_t start = 0; start < context && shared; start += chunk) {
        struct span span = {start, context - start < chunk ? context - start : chunk};
        kv_project(model, batch, layer, span, tensor_rows(x, start * B, span.count * B), kv, NULL, KEEP_NOTHING);
    }
    kv = carry_gather_take(model, batch, kv);
    unit_prefetch(model, unit_of_layer(layer + 1));
    for (size_t start = 0; start < context; start += chunk) {
        struct span span = {start, context - start < chunk ? context - start : chunk};
        struct tensor rows = tensor_rows(x, start * B, span.count * B);
        struct activations cell = {0};
        if (!shared)
            kv_project(model, batch, layer, span, rows, kv, &cell, KEEP_NOTHING);
        cell_forward(model, batch, layer, span, rows, kv, rows, &cell, KEEP_NOTHING);
    }
    unit_release(model, unit_of_layer(layer));
    carry_free(model, &kv);
}
