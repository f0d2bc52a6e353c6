#include "kernels/transformer/cell.h"
#include "kernels/transformer/cell_parts.h"

// Of a block of x, before RoPE and the norm of keys.
static void project_block(struct model *model, const struct layer *w, struct tensor k, struct tensor v,
                          struct tensor x, struct tensor h)
{
    if (w->attention_norm) {
        norm_forward(model, w->attention_norm, h, tensor_none(), x);
    } else {
        h = x;
    }
    projection_forward(model, &w->k, k, h, false);
    projection_forward(model, &w->v, v, h, false);
}

static void project_kv(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                       struct tensor x, struct kv kv, struct activations *keep)
{
    struct device *device = model->device;
    const struct layer *w = &model->layers[layer];
    struct rotated keys = rotated_keys(model, layer);
    size_t n = x.rows, most = block_rows(model, n);
    kv = kv_rows(kv, chunk.start * (n / chunk.count), n);
    struct tensor h = w->attention_norm ? scratch(model, most, x.cols) : tensor_none(), projected = kv.k;
    if (keep && keys.norm && !batch_is_shared(batch)) {
        projected = keep->k_projected = activation(model, n, kv.k.cols);
        keep->rstd_k = statistic(model, n * rotated_norms(model, keys), 1);
    }
    for (struct blocks b = blocks_of(device, n, most); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        project_block(model, w, tensor_rows(projected, row, rows), tensor_rows(kv.v, row, rows),
                      tensor_rows(x, row, rows), tensor_rows(h, 0, rows));
    }
    rotate(model, batch, keys, kv.k, keep ? keep->rstd_k : tensor_none(), projected, chunk);
    tensor_free(device, &h);
}

void kv_project(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct tensor x,
                struct kv kv, struct activations *keep)
{
    struct activations none = {0}, *a = keep ? keep : &none;
    struct memo_use use;
    if (x.rows == 0) {
        return;
    }
    struct cell_key key = cell_key_of(model, batch, CELL_KV_PROJECT, layer, chunk, x.rows);
    key.start = key.further_start = 0;
    key.keeping = keep != NULL;
    cell_range_push(model, "kv_project", layer, chunk.start);
    if (!cell_memo_begin(model, &use, key, a)) {
        project_kv(model, batch, layer, chunk, x, kv, keep);
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
        const struct layer *w = &model->layers[layer];
        struct tensor h = w->attention_norm ? scratch(model, x.rows, x.cols) : tensor_none();
        project_block(model, w, own.k, own.v, x, h);
        tensor_free(model->device, &h);
        memo_end(model->device, &use, key, sizeof key);
    }
    range_pop(model->device);
}

void kv_rotate(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct kv kv)
{
    if (chunk.count == 0) {
        return;
    }
    cell_range_push(model, "kv_rotate", layer, chunk.start);
    rotate(model, batch, rotated_keys(model, layer), kv.k, tensor_none(), kv.k, chunk);
    range_pop(model->device);
}

// What the backward of keys and values reads, from x again.
static void keep_keys(struct model *model, size_t layer, struct tensor x, struct activations *a)
{
    struct device *device = model->device;
    const struct layer *w = &model->layers[layer];
    const struct config *c = &model->config;
    struct rotated keys = rotated_keys(model, layer);
    size_t n = x.rows, most = block_rows(model, n), norms = rotated_norms(model, keys);
    struct tensor h = w->attention_norm ? scratch(model, most, c->width) : tensor_none(), normed = {0};
    a->x = x;
    if (w->attention_norm) {
        a->rstd_attention = statistic(model, n, 1);
    }
    if (keys.norm) {
        a->k_projected = activation(model, n, c->kv_heads * c->head_dim);
        a->rstd_k = statistic(model, n * norms, 1);
        normed = scratch(model, most, a->k_projected.cols);
    }
    for (struct blocks b = blocks_of(device, n, most); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor x_block = tensor_rows(x, row, rows);
        struct tensor block = w->attention_norm ? tensor_rows(h, 0, rows) : x_block;
        if (w->attention_norm) {
            norm_forward(model, w->attention_norm, block, tensor_rows(a->rstd_attention, row, rows), x_block);
        }
        if (keys.norm) {
            struct tensor k = tensor_rows(a->k_projected, row, rows);
            projection_forward(model, &w->k, k, block, false);
            rotated_norm(model, keys, tensor_rows(normed, 0, rows),
                         tensor_rows(a->rstd_k, row * norms, rows * norms), k);
        }
    }
    tensor_free(device, &normed);
    tensor_free(device, &h);
}

void kv_project_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                         struct tensor x, struct kv grad_kv, struct tensor grad)
{
    struct activations a = {0};
    if (x.rows == 0) {
        return;
    }
    grad_kv = kv_rows(grad_kv, chunk.start * (x.rows / chunk.count), x.rows);
    cell_range_push(model, "kv_project_backward", layer, chunk.start);
    keep_keys(model, layer, x, &a);
    projections_backward(model, batch, layer, chunk, &a, NULL, &grad_kv, grad);
    activations_free(model, &a);
    range_pop(model->device);
}
