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
        .mask = {.window = kind->window, .documents = batch_documents(batch, (struct span){run.start, run.count})}};
}
