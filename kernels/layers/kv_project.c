#include "kernels/layers/cell.h"
#include "kernels/layers/cell_parts.h"

static void project_kv(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                       struct tensor x, struct kv kv, struct activations *a, enum keep how, bool queries)
{
    struct rotated keys = rotated_keys(model, layer);
    size_t n = x.rows;
    struct projected to = {0};
    kv = kv_rows(kv, chunk.start * (n / chunk.count), n);
    if (queries)
        to = projected_queries(model, layer, n, a, how);
    to.k = kv.k, to.v = kv.v;
    if (how != KEEP_NOTHING && keys.norm && !batch_is_shared(batch)) {
        to.k = a->k_projected = activation(model, n, kv.k.cols);
        a->rstd_k = statistic(model, n * rotated_norms(model, keys), 1);
    }
    projections_forward(model, layer, x, &to);
    rotate(model, batch, keys, kv.k, a->rstd_k, to.k, chunk);
}

void kv_project(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct tensor x,
                struct kv kv, struct activations *cell, enum keep how)
{
    struct activations none = {0}, *a = cell ? cell : &none;
    struct memo_use use;
    bool queries = cell && !model->device->unfused;
    if (x.rows == 0)
        return;
    struct cell_key key = cell_key_of(model, batch, CELL_KV_PROJECT, layer, chunk, x.rows);
    key.start = key.further_start = 0;
    key.how = how;
    key.queries = queries;
    cell_range_push(model, "kv_project", layer, chunk.start);
    if (!cell_memo_begin(model, &use, key, a)) {
        project_kv(model, batch, layer, chunk, x, kv, a, how, queries);
        cell_memo_end(model, &use, a);
    }
    range_pop(model->device);
}

size_t kv_block_rows(const struct model *model, size_t rows)
{
    return block_rows(model, rows);
}

void kv_project_block(struct model *model, size_t layer, struct span chunk, size_t row, struct tensor x,
                      struct kv kv)
{
    cell_range_push(model, "kv_project", layer, chunk.start + row * chunk.count / kv.k.rows);
    const size_t key[] = {CELL_KV_PROJECT_BLOCK, x.rows, model->layers[layer].alike};
    struct memo_use use;
    if (!memo_begin(model->device, &use, key, sizeof key)) {
        struct kv own = kv_rows(kv, row, x.rows);
        projections_forward(model, layer, x, &(struct projected){.k = own.k, .v = own.v});
        memo_end(model->device, &use, key, sizeof key);
    }
    range_pop(model->device);
}

void kv_rotate(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct kv kv)
{
    if (chunk.count == 0)
        return;
    cell_range_push(model, "kv_rotate", layer, chunk.start);
    rotate(model, batch, rotated_keys(model, layer), kv.k, tensor_none(), kv.k, chunk);
    range_pop(model->device);
}

// Makes what the backward of keys and values reads, from x again.
static void keep_keys(struct model *model, size_t layer, struct tensor x, struct activations *a)
{
    const struct config *c = &model->config;
    struct rotated keys = rotated_keys(model, layer);
    a->x = x;
    if (model->layers[layer].attention_norm)
        a->rstd_attention = statistic(model, x.rows, 1);
    if (keys.norm) {
        a->k_projected = activation(model, x.rows, c->kv_heads * c->head_dim);
        a->rstd_k = statistic(model, x.rows * rotated_norms(model, keys), 1);
    }
    projections_forward(model, layer, x,
                        &(struct projected){.k = a->k_projected, .rstd = a->rstd_attention, .rstd_k = a->rstd_k});
}

void kv_project_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                         struct tensor x, struct kv grad_kv, struct tensor grad)
{
    struct activations a = {0};
    if (x.rows == 0)
        return;
    grad_kv = kv_rows(grad_kv, chunk.start * (x.rows / chunk.count), x.rows);
    cell_range_push(model, "kv_project_backward", layer, chunk.start);
    keep_keys(model, layer, x, &a);
    projections_backward(model, batch, layer, chunk, &a, NULL, &grad_kv, grad);
    activations_free(model, &a);
    range_pop(model->device);
}
