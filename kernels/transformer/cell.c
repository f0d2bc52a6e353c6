#include "kernels/transformer/cell.h"
#include "kernels/base/observer.h"
#include "kernels/transformer/blocks.h"
#include "kernels/transformer/cell_memo.h"
#include "kernels/transformer/cell_memory.h"
#include "kernels/transformer/mlp.h"
#include "kernels/transformer/norm.h"
#include "kernels/transformer/projection.h"
#include "kernels/transformer/rotation.h"
#include "kernels/transformer/unit.h"

static void cell_range_push(struct model *model, const char *name, size_t layer, size_t start)
{
    range_push(model->device, (struct range){.level = RANGE_CELL, .name = name, .layer = layer, .start = start});
}

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

static struct attention_shape attention_shape_of(const struct config *c, const struct batch *batch, size_t layer,
                                                 struct span chunk, size_t rows)
{
    return (struct attention_shape){
        .queries = chunk.count,
        .start = chunk.start,
        .batch = rows / chunk.count,
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .head_dim = c->head_dim,
        .mask = {.window = config_window(c, layer), .documents = batch_documents(batch, chunk)}};
}

// What the cost of a part with attention depends on.
static struct cell_key key_of(const struct config *c, const struct batch *batch, enum cell_part part, size_t layer,
                              struct span chunk, size_t rows)
{
    return (struct cell_key){.part = part,
                             .rows = rows,
                             .start = chunk.start,
                             .count = chunk.count,
                             .window = config_window(c, layer),
                             .documents = batch->documents};
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
    if (keep && keys.norm) {
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
    struct cell_key key =
        key_of(&model->config, batch, CELL_KV_PROJECT, layer, (struct span){0, chunk.count}, x.rows);
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
    const size_t key[] = {CELL_KV_PROJECT_BLOCK, x.rows};
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
    cell_range_push(model, "kv_rotate", layer, chunk.start);
    rotate(model, batch, rotated_keys(model, layer), kv.k, tensor_none(), kv.k, chunk);
    range_pop(model->device);
}

// q, and what its backward needs, from x. Returns the queries as attention reads them; with qk_norm and keep a
// scratch tensor beside a->q.
static struct tensor queries(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                             struct tensor x, struct activations *a, bool keeping, enum keep how)
{
    struct device *device = model->device;
    const struct layer *w = &model->layers[layer];
    const struct config *c = &model->config;
    struct rotated of = rotated_queries(model, layer), keys = rotated_keys(model, layer);
    size_t n = x.rows, most = block_rows(model, n), key_norms = rotated_norms(model, keys);
    bool project_k = keeping && keys.norm && !a->k_projected.data;
    a->q = activation(model, n, c->heads * c->head_dim);
    if (keeping && w->attention_norm) {
        a->rstd_attention = statistic(model, n, 1);
    }
    if (keeping && of.norm) {
        a->rstd_q = statistic(model, n * rotated_norms(model, of), 1);
    }
    if (project_k) {
        a->k_projected = activation(model, n, c->kv_heads * c->head_dim);
        a->rstd_k = statistic(model, n * key_norms, 1);
    }
    struct tensor h = {0};
    if (keeping && how == KEEP_ALL && w->attention_norm) {
        a->h_attention = activation(model, n, c->width);
    } else if (w->attention_norm) {
        h = scratch(model, most, c->width);
    }
    for (struct blocks b = blocks_of(device, n, most); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor x_block = tensor_rows(x, row, rows);
        struct tensor block = !w->attention_norm ? x_block
                              : h.data           ? tensor_rows(h, 0, rows)
                                                 : tensor_rows(a->h_attention, row, rows);
        if (w->attention_norm) {
            norm_forward(model, w->attention_norm, block, tensor_rows(a->rstd_attention, row, rows), x_block);
        }
        projection_forward(model, &w->q, tensor_rows(a->q, row, rows), block, false);
        if (project_k) {
            // The keys themselves are in the cache; their norm's backward needs them as projected, and its rstd.
            struct tensor k = tensor_rows(a->k_projected, row, rows);
            projection_forward(model, &w->k, k, block, false);
            struct tensor normed = scratch(model, rows, k.cols);
            rotated_norm(model, keys, normed, tensor_rows(a->rstd_k, row * key_norms, rows * key_norms), k);
            tensor_free(device, &normed);
        }
    }
    tensor_free(device, &h);
    struct tensor q = keeping && of.norm ? scratch(model, n, a->q.cols) : a->q;
    rotate(model, batch, of, q, a->rstd_q, a->q, chunk);
    return q;
}

// x_mid += the norm of o's projection.
static void add_normed_output(struct model *model, const struct layer *w, struct tensor x_mid,
                              struct activations *a, bool keeping)
{
    struct device *device = model->device;
    size_t n = x_mid.rows, most = block_rows(model, n);
    struct tensor normed = scratch(model, most, x_mid.cols);
    if (keeping) {
        a->attention_out = activation(model, n, x_mid.cols);
        a->rstd_attention_out = statistic(model, n, 1);
    }
    for (struct blocks b = blocks_of(device, n, most); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor y = tensor_rows(normed, 0, rows),
                      out = keeping ? tensor_rows(a->attention_out, row, rows) : y;
        projection_forward(model, &w->o, out, tensor_rows(a->o, row, rows), false);
        norm_forward(model, w->attention_out_norm, y, tensor_rows(a->rstd_attention_out, row, rows), out);
        op_accumulate(device, tensor_rows(x_mid, row, rows), y);
    }
    tensor_free(device, &normed);
}

// a: kept if keeping, else freed.
static void forward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                    struct tensor x, struct kv kv, struct tensor y, struct activations *a, bool keeping,
                    enum keep how)
{
    struct device *device = model->device;
    const struct layer *w = &model->layers[layer];
    const struct config *c = &model->config;
    size_t n = x.rows;
    struct tensor q = queries(model, batch, layer, chunk, x, a, keeping, how);
    a->o = activation(model, n, c->heads * c->head_dim);
    a->logsumexp = statistic(model, n, c->heads);
    op_attention_forward(device, attention_shape_of(c, batch, layer, chunk, n), a->o, a->logsumexp, q, kv.k, kv.v);
    if (q.data != a->q.data) {
        tensor_free(device, &q);
    }
    if (!keeping) {
        tensor_free(device, &a->q);
    }
    // Nothing kept: x_mid is built where y will be.
    struct tensor x_mid = keeping ? activation(model, n, c->width) : y;
    if (x_mid.data != x.data) {
        op_copy(device, x_mid, x);
    }
    if (w->attention_out_norm) {
        add_normed_output(model, w, x_mid, a, keeping);
    } else {
        projection_forward(model, &w->o, x_mid, a->o, true);
    }
    if (keeping) {
        a->x_mid = x_mid;
    } else {
        activations_free(model, a);
    }
    mlp_forward(model, layer, x_mid, y, a, keeping, how);
}

void cell_forward(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct tensor x,
                  struct kv kv, struct tensor y, struct activations *keep, enum keep how)
{
    struct activations none = {0}, *a = keep ? keep : &none;
    struct memo_use use;
    struct cell_key key = key_of(&model->config, batch, CELL_FORWARD, layer, chunk, x.rows);
    key.keeping = keep != NULL;
    key.how = how;
    key.has_output = y.data != NULL;
    key.in_place = y.data == x.data;
    cell_range_push(model, "cell_forward", layer, chunk.start);
    if (y.data) {
        unit_want(model, unit_of_layer(layer + 1)); // above the last layer: the head
    }
    a->x = x;
    if (!cell_memo_begin(model, &use, key, a)) {
        forward(model, batch, layer, chunk, x, kv, y, a, keep, how);
        cell_memo_end(model, &use, a);
    }
    range_pop(model->device);
}

// grad: that of y, becomes that of x_mid.
void cell_backward_mlp(struct model *model, size_t layer, struct span chunk, struct activations *a,
                       struct tensor grad)
{
    struct memo_use use;
    const struct cell_key key = {
        .part = CELL_BACKWARD_MLP, .rows = grad.rows, .training = unit_training(model, unit_of_layer(layer))};
    cell_range_push(model, "cell_backward_mlp", layer, chunk.start);
    unit_add(model, unit_of_layer(layer));
    if (layer > model->lowest_trained) {
        unit_want(model, unit_of_layer(layer - 1));
    }
    if (!cell_memo_begin(model, &use, key, a)) {
        mlp_backward(model, layer, a, grad);
        cell_memo_end(model, &use, a);
    }
    range_pop(model->device);
}

// From the gradients of q, k and v, as attention's backward leaves them, to that of x, if any, added to grad.
static void projections_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                                 struct activations *a, struct tensor grad_q, struct kv grad_kv, struct tensor grad)
{
    struct device *device = model->device;
    const struct layer *w = &model->layers[layer];
    const struct config *c = &model->config;
    size_t n = grad.rows, B = n / chunk.count, block = block_rows(model, n);
    size_t most = block > B ? block / B * B : B; // whole tokens: RoPE wants a position per row
    struct rotated queries = rotated_queries(model, layer), keys = rotated_keys(model, layer);
    size_t query_norms = rotated_norms(model, queries), key_norms = rotated_norms(model, keys);
    bool all = a->h_attention.data, convert = grad_kv.k.dtype != grad.dtype, normed = w->attention_norm;
    bool descends = model_descends(model, layer), of_gain = normed && w->attention_norm->grad.data;
    struct tensor h = all || !normed ? tensor_none() : scratch(model, most, c->width);
    struct kv converted = {0};
    if (convert) {
        converted = kv_new(model, most, grad.dtype, CATEGORY_WORKSPACE);
    }
    for (struct blocks b = blocks_of(device, n, most); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct span tokens = {chunk.start + row / B, rows / B};
        struct tensor q = tensor_rows(grad_q, row, rows), x = tensor_rows(a->x, row, rows);
        struct kv kv = kv_rows(grad_kv, row, rows);
        if (convert) {
            struct kv narrow = kv_rows(converted, 0, rows);
            op_copy(device, narrow.k, kv.k);
            op_copy(device, narrow.v, kv.v);
            kv = narrow;
        }
        rotate_backward(model, batch, queries, q, tensor_rows(a->rstd_q, row * query_norms, rows * query_norms),
                        tensor_rows(a->q, row, rows), tokens);
        rotate_backward(model, batch, keys, kv.k, tensor_rows(a->rstd_k, row * key_norms, rows * key_norms),
                        tensor_rows(a->k_projected, row, rows), tokens);
        struct tensor h_block = !normed ? x
                                : all   ? tensor_rows(a->h_attention, row, rows)
                                        : tensor_rows(h, 0, rows);
        if (normed && !all) {
            norm_forward(model, w->attention_norm, h_block, tensor_none(), x);
        }
        projection_backward_weights(model, &w->q, q, h_block);
        projection_backward_weights(model, &w->k, kv.k, h_block);
        projection_backward_weights(model, &w->v, kv.v, h_block);
        if (descends || of_gain) {
            // Without a norm the gradient is added where that of x is summed; else it takes the place of h.
            struct tensor grad_block = tensor_rows(grad, row, rows), grad_h = normed ? h_block : grad_block;
            projection_backward_input(model, &w->q, grad_h, q, !normed);
            projection_backward_input(model, &w->k, grad_h, kv.k, true);
            projection_backward_input(model, &w->v, grad_h, kv.v, true);
            if (normed) {
                norm_backward(model, w->attention_norm, descends ? grad_block : tensor_none(), true, h_block, x,
                              tensor_rows(a->rstd_attention, row, rows));
            }
        }
    }
    kv_free(model, &converted);
    tensor_free(device, &h);
}

// grad_o: that of what attention made, from that of x_mid, through the norm of its projection if it has one.
static void output_backward(struct model *model, const struct layer *w, struct tensor grad_o, struct activations *a,
                            struct tensor grad)
{
    struct device *device = model->device;
    if (!w->attention_out_norm) {
        projection_backward_input(model, &w->o, grad_o, grad, false);
        projection_backward_weights(model, &w->o, grad, a->o);
        return;
    }
    size_t n = grad.rows, most = block_rows(model, n);
    struct tensor grad_out = scratch(model, most, grad.cols);
    for (struct blocks b = blocks_of(device, n, most); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor block = tensor_rows(grad_out, 0, rows);
        norm_backward(model, w->attention_out_norm, block, false, tensor_rows(grad, row, rows),
                      tensor_rows(a->attention_out, row, rows), tensor_rows(a->rstd_attention_out, row, rows));
        projection_backward_input(model, &w->o, tensor_rows(grad_o, row, rows), block, false);
        projection_backward_weights(model, &w->o, block, tensor_rows(a->o, row, rows));
    }
    tensor_free(device, &grad_out);
    tensor_free(device, &a->attention_out);
}

static void backward_attention(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                               struct activations *a, struct kv kv, const struct key_segment *segments,
                               size_t segment_count, struct tensor grad)
{
    struct device *device = model->device;
    const struct layer *w = &model->layers[layer];
    const struct config *c = &model->config;
    size_t n = grad.rows;
    struct attention_shape shape = attention_shape_of(c, batch, layer, chunk, n);
    struct tensor grad_o = scratch(model, n, c->heads * c->head_dim);
    output_backward(model, w, grad_o, a, grad);
    struct tensor q = a->q;
    if (w->q_norm) {
        q = scratch(model, n, a->q.cols);
        rotate(model, batch, rotated_queries(model, layer), q, tensor_none(), a->q, chunk);
    }
    struct tensor grad_q = grad_o; // in place
    op_attention_backward(device, shape, grad_q, false, segments, segment_count, grad_o, a->o, a->logsumexp, q,
                          kv.k, kv.v);
    if (w->q_norm) {
        tensor_free(device, &q);
    }
    const struct key_segment *own = &segments[segment_count - 1];
    CHECK(own->start <= chunk.start && chunk.start + chunk.count <= own->start + own->count);
    struct kv grad_kv = kv_rows((struct kv){own->grad_k, own->grad_v}, (chunk.start - own->start) * shape.batch, n);
    projections_backward(model, batch, layer, chunk, a, grad_q, grad_kv, grad);
    tensor_free(device, &grad_o);
    activations_free(model, a);
}

// grad: that of x_mid, becomes that of x, or is spent.
void cell_backward_attention(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                             struct activations *a, struct kv kv, const struct key_segment *segments,
                             size_t segment_count, struct tensor grad)
{
    struct memo_use use = {0};
    struct cell_key key = key_of(&model->config, batch, CELL_BACKWARD_ATTENTION, layer, chunk, grad.rows);
    key.training = unit_training(model, unit_of_layer(layer));
    key.descends = model_descends(model, layer);
    key.segment_start = segments[0].start;
    key.segment_count = segments[0].count;
    key.segment_dtype = segments[0].grad_k.dtype;
    cell_range_push(model, "cell_backward_attention", layer, chunk.start);
    bool alone = segment_count == 1; // many have too many forms to come twice
    if (!alone || !cell_memo_begin(model, &use, key, a)) {
        backward_attention(model, batch, layer, chunk, a, kv, segments, segment_count, grad);
        cell_memo_end(model, &use, a);
    }
    range_pop(model->device);
}

void cell_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                   struct activations *a, struct kv kv, const struct key_segment *segments, size_t segment_count,
                   struct tensor grad)
{
    cell_backward_mlp(model, layer, chunk, a, grad);
    cell_backward_attention(model, batch, layer, chunk, a, kv, segments, segment_count, grad);
}
