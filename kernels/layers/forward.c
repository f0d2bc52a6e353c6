#include "kernels/layers/forward.h"
#include "kernels/attention/kv_ranks.h"
#include "kernels/model/unit.h"

struct activations layer_cell(struct kept_outputs outputs, struct span chunk, size_t B, enum mixer_output whose)
{
    struct activations cell = {0};
    if (outputs.kept) {
        cell.output = whose;
        for (size_t i = 0; i < MIXER_OUTPUTS; i++)
            cell.mixer.own[i] = tensor_rows(outputs.t[i], chunk.start * B, chunk.count * B);
    }
    return cell;
}

static struct span chunk_of(size_t context, size_t chunk, size_t i)
{
    size_t start = i * chunk;
    return (struct span){start, context - start < chunk ? context - start : chunk};
}

void layer_forward(struct model *model, const struct batch *batch, size_t layer, size_t chunk, struct tensor x,
                   struct tensor y, struct kept_outputs outputs)
{
    size_t context = batch->context, B = batch->batch;
    bool whole = chunk == 0 || chunk > context || cell_is_whole(model, layer);
    bool shared = batch_is_shared(batch); // then all keys and values come first
    chunk = whole ? context : chunk;
    size_t count = context ? (context + chunk - 1) / chunk : 1; // a rank without tokens takes part in exchanges
    struct carry kv = carry_new(model, layer, PLACE_DEVICE, carry_size_of(batch, context, chunk));
    unit_acquire(model, unit_of_layer(layer));
    for (size_t i = 0; shared && i < count; i++) {
        struct span span = chunk_of(context, chunk, i);
        kv_project(model, batch, layer, span, tensor_rows(x, span.start * B, span.count * B), kv, NULL,
                   KEEP_NOTHING);
    }
    kv = carry_gather_take(model, batch, layer, kv);
    unit_prefetch(model, unit_of_layer(layer + 1)); // after the last layer: the head
    for (size_t i = 0; i < count; i++) {
        struct span span = chunk_of(context, chunk, i);
        struct tensor rows = tensor_rows(x, span.start * B, span.count * B);
        struct activations cell = layer_cell(outputs, span, B, OUTPUT_WRITE);
        if (!shared)
            kv_project(model, batch, layer, span, rows, kv, &cell, KEEP_NOTHING);
        cell_forward(model, batch, layer, span, rows, kv, tensor_rows(y, span.start * B, span.count * B), &cell,
                     KEEP_NOTHING);
    }
    unit_release(model, unit_of_layer(layer));
    carry_free(model, &kv);
}
