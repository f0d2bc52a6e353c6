#include "kernels/attention/attention_shape.h"

struct attention_shape attention_shape_of(const struct config *c, const struct batch *batch, size_t layer,
                                          struct token_run run, size_t B)
{
    return (struct attention_shape){
        .queries = run.count,
        .start = run.start,
        .batch = B,
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .head_dim = c->head_dim,
        .mask = {.window = config_window(c, layer),
                 .documents = batch_documents(batch, (struct span){run.start, run.count})}};
}
