#include "kernels/attention/attention_shape.h"

struct attention_shape attention_shape_of(const struct config *c, const struct batch *batch, size_t layer,
                                          struct token_run run, size_t B)
{
    const struct layer_kind *kind = config_kind(c, layer);
    struct span tokens = {run.start, run.count};
    CHECK(!kind->chunked || batch->chunk == kind->window);
    return (struct attention_shape){
        .queries = run.count,
        .start = run.start,
        .batch = B,
        .heads = kind->heads,
        .kv_heads = kind->kv_heads,
        .head_dim = kind->head_dim,
        .cap = kind->cap,
        .value_dim = kind->value_dim,
        .mask = {.window = kind->chunked ? 0 : kind->window,
                 .documents = kind->chunked ? batch_chunks(batch, tokens) : batch_documents(batch, tokens)}};
}

double attention_pairs(const struct batch *batch, const struct layer_kind *kind)
{
    size_t T = batch->context, max = kind->window && kind->window < T ? kind->window : T, rest = T % max;
    size_t whole = T / max; // chunks
    double triangle = (double)max * (max + 1) / 2, pairs = triangle + (double)(T - max) * max;
    if (kind->chunked)
        pairs = (double)whole * triangle + (double)rest * (rest + 1) / 2;
    for (size_t row = 0; batch->starts && row < T * batch->batch; row++) {
        size_t start = (size_t)batch->starts[row], seen = row / batch->batch + 1 - start; // of the document
        seen += batch->prefixes && start > 0 ? (size_t)batch->prefixes[row % batch->batch] : 0;
        seen = kind->chunked ? (seen - 1) % max + 1 : seen;
        pairs = (row ? pairs : 0) + (double)(seen < max ? seen : max);
    }
    return batch->starts ? pairs / (double)batch->batch : pairs;
}
