#include "kernels/layers/cell_parts.h"

struct cell_key cell_key_of(const struct model *model, const struct batch *batch, enum cell_part part, size_t layer,
                            struct span chunk, size_t rows)
{
    struct token_run runs[PIECES] = {{0}};
    pieces_runs(&batch->pieces, chunk, runs);
    return (struct cell_key){.part = part,
                             .rows = rows,
                             .start = runs[0].start,
                             .count = runs[0].count,
                             .further_start = runs[1].start,
                             .further_count = runs[1].count,
                             .window = config_window(&model->config, layer),
                             .alike = model->layers[layer].alike,
                             .documents = batch->documents};
}

void projections_forward(struct model *model, size_t layer, struct tensor x, const struct projected *to)
{
    const struct layer *w = &model->layers[layer];
    struct rotated keys = rotated_keys(model, layer);
    size_t n = x.rows, max = block_rows(model, n), norms = rotated_norms(model, keys);
    struct tensor h = {0}, normed = {0};
    if (w->attention_norm && !to->h.data)
        h = scratch(model, max, x.cols);
    if (to->rstd_k.data)
        normed = scratch(model, max, to->k.cols);
    for (struct blocks b = blocks_of(model->device, n, max); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor k = tensor_rows(to->k, row, rows), block = tensor_rows(x, row, rows);
        if (w->attention_norm) {
            struct tensor x_block = block;
            block = to->h.data ? tensor_rows(to->h, row, rows) : tensor_rows(h, 0, rows);
            norm_forward(model, w->attention_norm, block, tensor_rows(to->rstd, row, rows), x_block);
        }
        if (to->q.data)
            projection_forward(model, &w->q, tensor_rows(to->q, row, rows), block, false);
        if (to->k.data)
            projection_forward(model, &w->k, k, block, false);
        if (to->v.data)
            projection_forward(model, &w->v, tensor_rows(to->v, row, rows), block, false);
        if (to->rstd_k.data) {
            rotated_norm(model, keys, tensor_rows(normed, 0, rows),
                         tensor_rows(to->rstd_k, row * norms, rows * norms), k);
        }
    }
    tensor_free(model->device, &normed);
    tensor_free(model->device, &h);
}

struct projected projected_queries(struct model *model, size_t layer, size_t n, struct activations *a,
                                   enum keep how)
{
    const struct config *c = &model->config;
    bool normed = model->layers[layer].attention_norm;
    a->q = activation(model, n, c->heads * c->head_dim);
    if (how != KEEP_NOTHING && normed)
        a->rstd_attention = statistic(model, n, 1);
    if (how == KEEP_ALL && normed)
        a->h_attention = activation(model, n, c->width);
    return (struct projected){.q = a->q, .h = a->h_attention, .rstd = a->rstd_attention};
}

// What projections_backward works on.
struct projections {
    struct model *model;
    const struct batch *batch;
    size_t layer;
    struct activations *a;
    const struct tensor *grad_q;
    const struct kv *grad_kv;
    struct tensor grad;
    struct tensor h;     // of a block; no tensor: it is kept, or x, where there is no norm
    struct kv converted; // of a block, in grad's dtype; no tensors: the gradients are
};

// The block's gradients of keys and values, with RoPE and norm undone.
static struct kv block_of_kv(const struct projections *p, size_t row, size_t rows, struct span tokens)
{
    struct device *device = p->model->device;
    struct rotated keys = rotated_keys(p->model, p->layer);
    size_t norms = rotated_norms(p->model, keys);
    struct kv kv = kv_rows(*p->grad_kv, row, rows);
    if (kv.k.dtype != p->grad.dtype) {
        struct kv narrow = kv_rows(p->converted, 0, rows);
        op_copy(device, narrow.k, kv.k);
        op_copy(device, narrow.v, kv.v);
        kv = narrow;
    }
    rotate_backward(p->model, p->batch, keys, kv.k, tensor_rows(p->a->rstd_k, row * norms, rows * norms),
                    tensor_rows(p->a->k_projected, row, rows), tokens);
    return kv;
}

static struct tensor block_of_q(const struct projections *p, size_t row, size_t rows, struct span tokens)
{
    struct rotated queries = rotated_queries(p->model, p->layer);
    size_t norms = rotated_norms(p->model, queries);
    struct tensor q = tensor_rows(*p->grad_q, row, rows);
    rotate_backward(p->model, p->batch, queries, q, tensor_rows(p->a->rstd_q, row * norms, rows * norms),
                    tensor_rows(p->a->q, row, rows), tokens);
    return q;
}

static void block_backward(const struct projections *p, size_t row, size_t rows, struct span tokens)
{
    struct model *model = p->model;
    struct activations *a = p->a;
    const struct layer *w = &model->layers[p->layer];
    bool all = a->h_attention.data, descends = model_descends(model, p->layer), normed = w->attention_norm;
    struct tensor x = tensor_rows(a->x, row, rows);
    struct tensor q = p->grad_q ? block_of_q(p, row, rows, tokens) : tensor_none();
    struct kv kv = p->grad_kv ? block_of_kv(p, row, rows, tokens) : (struct kv){0};
    struct tensor h = !normed ? x : all ? tensor_rows(a->h_attention, row, rows) : tensor_rows(p->h, 0, rows);
    if (normed && !all)
        norm_forward(model, w->attention_norm, h, tensor_none(), x);
    struct tensor grad_u_q = {0}, grad_u_k = {0}, grad_u_v = {0};
    if (p->grad_q)
        projection_backward_weights(model, &w->q, q, &grad_u_q, h);
    if (p->grad_kv) {
        projection_backward_weights(model, &w->k, kv.k, &grad_u_k, h);
        projection_backward_weights(model, &w->v, kv.v, &grad_u_v, h);
    }
    // Without a norm the gradient is added where that of x is summed; else it takes the place of h.
    struct tensor grad = tensor_rows(p->grad, row, rows), grad_h = normed ? h : grad;
    bool needed = descends || (normed && w->attention_norm->grad.data);
    if (p->grad_q && needed)
        projection_backward_input(model, &w->q, grad_h, q, &grad_u_q, !normed);
    if (p->grad_kv && needed) {
        projection_backward_input(model, &w->k, grad_h, kv.k, &grad_u_k, !normed || p->grad_q);
        projection_backward_input(model, &w->v, grad_h, kv.v, &grad_u_v, true);
    }
    tensor_free(model->device, &grad_u_v);
    tensor_free(model->device, &grad_u_k);
    tensor_free(model->device, &grad_u_q);
    if (normed && needed) {
        norm_backward(model, w->attention_norm, descends ? grad : tensor_none(), true, h, x,
                      tensor_rows(a->rstd_attention, row, rows));
    }
}

void projections_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                          struct activations *a, const struct tensor *grad_q, const struct kv *grad_kv,
                          struct tensor grad)
{
    size_t n = grad.rows, B = n / chunk.count, block = block_rows(model, n);
    size_t max = block > B ? block / B * B : B; // whole tokens: RoPE wants a position per row
    struct projections p = {
        .model = model, .batch = batch, .layer = layer, .a = a, .grad_q = grad_q, .grad_kv = grad_kv, .grad = grad};
    if (!a->h_attention.data && model->layers[layer].attention_norm)
        p.h = scratch(model, max, model->config.width);
    if (grad_kv && grad_kv->k.dtype != grad.dtype)
        p.converted = kv_new(model, max, grad.dtype, CATEGORY_WORKSPACE);
    struct token_run runs[PIECES];
    size_t count = pieces_runs(&batch->pieces, chunk, runs);
    for (size_t i = 0; i < count; i++) {
        size_t first = runs[i].first, row = (first - chunk.start) * B;
        for (struct blocks b = blocks_of(model->device, runs[i].count * B, max); blocks_next(&b);)
            block_backward(&p, row + b.row, b.count, (struct span){first + b.row / B, b.count / B});
    }
    kv_free(model, &p.converted);
    tensor_free(model->device, &p.h);
}
