#include "kernels/attention/attention_shape.h"

struct attention_shape attention_shape_of(const struct config *c, const struct batch *batch, size_t layer,
                                          struct token_run run, size_t B)
{
    const struct layer_kind *kind = config_kind(c, layer);
    return (struct attention_shape){
        .queries = run.count,
        .start = run.start,
        .batch = B,
        .heads = kind->heads,
        .kv_heads = kind->kv_heads,
        .head_dim = kind->head_dim,
        .cap = kind->cap,
        .value_dim = kind->value_dim,
        .mask = {.window = kind->window, .documents = batch_documents(batch, (struct span){run.start, run.count})}};
}

double attention_pairs(const struct batch *batch, size_t window)
{
    size_t T = batch->context, max = window && window < T ? window : T;
    double pairs = (double)max * (max + 1) / 2 + (double)(T - max) * max;
    for (size_t row = 0; batch->starts && row < T * batch->batch; row++) {
        size_t start = (size_t)batch->starts[row], seen = row / batch->batch + 1 - start; // of the document
        seen += batch->prefixes && start > 0 ? (size_t)batch->prefixes[row % batch->batch] : 0;
        pairs = (row ? pairs : 0) + (double)(seen < max ? seen : max);
    }
    return batch->starts ? pairs / (double)batch->batch : pairs;
}
