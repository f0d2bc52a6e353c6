#include "kernels/transformer/cell.h"
#include "kernels/base/observer.h"
#include "kernels/transformer/blocks.h"
#include "kernels/transformer/cell_memo.h"
#include "kernels/transformer/projection.h"
#include "kernels/transformer/unit.h"

// Operations that work row by row run over blocks of at most this many of their `rows` rows, so that their scratch
// does not grow with the chunk: a whole context can be one cell. GEMMs of a block still run at full speed; the
// widest are the MLP's.
static size_t block_rows(const struct model *model, size_t rows)
{
    size_t most = model->device->ops->rules->block_rows(model->device, model->config.ffn);
    return rows < most ? rows : most;
}

static struct tensor activation(struct model *model, size_t rows, size_t cols)
{
    return tensor_new(model->device, rows, cols, model->device->ops->dtype, CATEGORY_ACTIVATIONS);
}

static struct tensor scratch(struct model *model, size_t rows, size_t cols)
{
    return tensor_new(model->device, rows, cols, model->device->ops->dtype, CATEGORY_WORKSPACE);
}

static struct tensor statistic(struct model *model, size_t rows, size_t cols)
{
    enum dtype dtype = dtype_statistic(model->device->ops->dtype);
    return tensor_new(model->device, rows, cols, dtype, CATEGORY_ACTIVATIONS);
}

static void cell_range_push(struct model *model, const char *name, size_t layer, size_t start)
{
    range_push(model->device, (struct range){.level = RANGE_CELL, .name = name, .layer = layer, .start = start});
}

// x: [n, heads * head_dim] as one row per head: [n * heads, head_dim]
static struct tensor by_head(struct model *model, struct tensor x)
{
    size_t head_dim = model->config.head_dim;
    return tensor_reshape(x, x.rows * x.cols / head_dim, head_dim);
}

// y = rope(rmsnorm(x)), the norm with qk_norm only. y may be x. rstd may be no tensor.
static void normalize_and_rotate(struct model *model, const struct batch *batch, const struct parameter *norm,
                                 struct tensor y, struct tensor rstd, struct tensor x, struct span tokens)
{
    if (norm) {
        op_rmsnorm_forward(model->device, by_head(model, y), rstd, by_head(model, x), norm->value,
                           model->config.norm_epsilon);
    }
    op_rope(model->device, y, model->rope_frequencies, tokens.start, x.rows / tokens.count,
            batch_documents(batch, tokens), +1);
}

// grad: that of y above, becomes that of x, which was `projected` before its norm.
static void normalize_and_rotate_backward(struct model *model, const struct batch *batch,
                                          const struct parameter *norm, struct tensor grad, struct tensor rstd,
                                          struct tensor projected, struct span tokens)
{
    op_rope(model->device, grad, model->rope_frequencies, tokens.start, grad.rows / tokens.count,
            batch_documents(batch, tokens), -1);
    if (norm) {
        op_rmsnorm_backward(model->device, by_head(model, grad), false, norm->grad, by_head(model, grad),
                            by_head(model, projected), norm->value, rstd);
    }
}

// Of a block of x, before RoPE and the norm of keys.
static void project_block(struct model *model, const struct layer *w, struct tensor k, struct tensor v,
                          struct tensor x, struct tensor h)
{
    op_rmsnorm_forward(model->device, h, tensor_none(), x, w->attention_norm->value, model->config.norm_epsilon);
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
    size_t n = x.rows, most = block_rows(model, n), heads = model->config.kv_heads;
    kv = kv_rows(kv, chunk.start * (n / chunk.count), n);
    struct tensor h = scratch(model, most, x.cols), projected = kv.k;
    if (keep && w->k_norm) {
        projected = keep->k_projected = activation(model, n, kv.k.cols);
        keep->rstd_k = statistic(model, n * heads, 1);
    }
    for (struct blocks b = blocks_of(device, n, most); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        project_block(model, w, tensor_rows(projected, row, rows), tensor_rows(kv.v, row, rows),
                      tensor_rows(x, row, rows), tensor_rows(h, 0, rows));
    }
    normalize_and_rotate(model, batch, w->k_norm, kv.k, keep ? keep->rstd_k : tensor_none(), projected, chunk);
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
        struct tensor h = scratch(model, x.rows, x.cols);
        project_block(model, &model->layers[layer], own.k, own.v, x, h);
        tensor_free(model->device, &h);
        memo_end(model->device, &use, key, sizeof key);
    }
    range_pop(model->device);
}

void kv_rotate(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct kv kv)
{
    cell_range_push(model, "kv_rotate", layer, chunk.start);
    normalize_and_rotate(model, batch, model->layers[layer].k_norm, kv.k, tensor_none(), kv.k, chunk);
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
    size_t n = x.rows, most = block_rows(model, n);
    bool project_k = keeping && w->k_norm && !a->k_projected.data;
    a->q = activation(model, n, c->heads * c->head_dim);
    if (keeping) {
        a->rstd_attention = statistic(model, n, 1);
    }
    if (keeping && w->q_norm) {
        a->rstd_q = statistic(model, n * c->heads, 1);
    }
    if (project_k) {
        a->k_projected = activation(model, n, c->kv_heads * c->head_dim);
        a->rstd_k = statistic(model, n * c->kv_heads, 1);
    }
    struct tensor h = {0};
    if (keeping && how == KEEP_ALL) {
        a->h_attention = activation(model, n, c->width);
    } else {
        h = scratch(model, most, c->width);
    }
    for (struct blocks b = blocks_of(device, n, most); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor block = h.data ? tensor_rows(h, 0, rows) : tensor_rows(a->h_attention, row, rows);
        op_rmsnorm_forward(device, block, tensor_rows(a->rstd_attention, row, rows), tensor_rows(x, row, rows),
                           w->attention_norm->value, c->norm_epsilon);
        projection_forward(model, &w->q, tensor_rows(a->q, row, rows), block, false);
        if (project_k) {
            // The keys themselves are in the cache; their norm's backward needs them as projected, and its rstd.
            struct tensor k = tensor_rows(a->k_projected, row, rows);
            projection_forward(model, &w->k, k, block, false);
            struct tensor normed = scratch(model, rows, k.cols);
            op_rmsnorm_forward(device, by_head(model, normed),
                               tensor_rows(a->rstd_k, row * c->kv_heads, rows * c->kv_heads), by_head(model, k),
                               w->k_norm->value, c->norm_epsilon);
            tensor_free(device, &normed);
        }
    }
    tensor_free(device, &h);
    struct tensor rotated = keeping && w->q_norm ? scratch(model, n, a->q.cols) : a->q;
    normalize_and_rotate(model, batch, w->q_norm, rotated, a->rstd_q, a->q, chunk);
    return rotated;
}

// y = x_mid + down(silu(gate) * up), in blocks. y may be x_mid. Without keeping, gate and up are scratch.
static void mlp_forward(struct model *model, size_t layer, struct tensor x_mid, struct tensor y,
                        struct activations *a, bool keeping, enum keep how)
{
    struct device *device = model->device;
    const struct layer *w = &model->layers[layer];
    const struct config *c = &model->config;
    size_t n = x_mid.rows, most = block_rows(model, n);
    bool all = keeping && how == KEEP_ALL;
    struct tensor h = {0}, gate = {0}, up = {0}, act = {0};
    if (keeping) {
        a->rstd_mlp = statistic(model, n, 1);
        a->gate = activation(model, n, c->ffn);
        a->up = activation(model, n, c->ffn);
    } else {
        gate = scratch(model, most, c->ffn);
        up = scratch(model, most, c->ffn);
    }
    if (all) {
        a->h_mlp = activation(model, n, c->width);
        a->act = activation(model, n, c->ffn);
    } else {
        h = scratch(model, most, c->width);
    }
    if (!all && keeping && y.data) {
        act = scratch(model, most, c->ffn);
    }
    for (struct blocks b = blocks_of(device, n, most); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor x_block = tensor_rows(x_mid, row, rows), y_block = tensor_rows(y, row, rows);
        struct tensor h_block = all ? tensor_rows(a->h_mlp, row, rows) : tensor_rows(h, 0, rows);
        struct tensor gate_block = keeping ? tensor_rows(a->gate, row, rows) : tensor_rows(gate, 0, rows);
        struct tensor up_block = keeping ? tensor_rows(a->up, row, rows) : tensor_rows(up, 0, rows);
        // Nothing kept: the product may take the gate's place.
        struct tensor act_block = all       ? tensor_rows(a->act, row, rows)
                                  : keeping ? tensor_rows(act, 0, rows)
                                            : gate_block;
        op_rmsnorm_forward(device, h_block, tensor_rows(a->rstd_mlp, row, rows), x_block, w->mlp_norm->value,
                           c->norm_epsilon);
        projection_forward(model, &w->gate, gate_block, h_block, false);
        projection_forward(model, &w->up, up_block, h_block, false);
        if (all || y.data) {
            op_swiglu_forward(device, act_block, gate_block, up_block);
        }
        if (y.data) {
            if (y.data != x_mid.data) {
                op_copy(device, y_block, x_block);
            }
            projection_forward(model, &w->down, y_block, act_block, true);
        }
    }
    tensor_free(device, &act);
    tensor_free(device, &h);
    tensor_free(device, &up);
    tensor_free(device, &gate);
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
    projection_forward(model, &w->o, x_mid, a->o, true);
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

static void backward_mlp(struct model *model, size_t layer, struct activations *a, struct tensor grad)
{
    struct device *device = model->device;
    const struct layer *w = &model->layers[layer];
    const struct config *c = &model->config;
    size_t n = grad.rows, most = block_rows(model, n);
    bool all = a->h_mlp.data;
    struct tensor act = scratch(model, most, c->ffn);
    struct tensor h = all ? tensor_none() : scratch(model, most, c->width);
    for (struct blocks b = blocks_of(device, n, most); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor grad_block = tensor_rows(grad, row, rows), act_block = tensor_rows(act, 0, rows);
        struct tensor gate = tensor_rows(a->gate, row, rows), up = tensor_rows(a->up, row, rows);
        struct tensor x_mid = tensor_rows(a->x_mid, row, rows);
        struct tensor h_block = all ? tensor_rows(a->h_mlp, row, rows) : tensor_rows(h, 0, rows);
        projection_backward_input(model, &w->down, act_block, grad_block, false);
        op_swiglu_backward(device, gate, up, act_block); // act_block: the gradient, then the product again
        projection_backward_weights(model, &w->down, grad_block, all ? tensor_rows(a->act, row, rows) : act_block);
        if (!all) {
            op_rmsnorm_forward(device, h_block, tensor_none(), x_mid, w->mlp_norm->value, c->norm_epsilon);
        }
        projection_backward_weights(model, &w->gate, gate, h_block);
        projection_backward_weights(model, &w->up, up, h_block);
        // h is spent: its gradient takes its place.
        projection_backward_input(model, &w->gate, h_block, gate, false);
        projection_backward_input(model, &w->up, h_block, up, true);
        op_rmsnorm_backward(device, grad_block, true, w->mlp_norm->grad, h_block, x_mid, w->mlp_norm->value,
                            tensor_rows(a->rstd_mlp, row, rows));
    }
    tensor_free(device, &h);
    tensor_free(device, &act);
    tensor_free(device, &a->gate);
    tensor_free(device, &a->up);
    tensor_free(device, &a->act);
    tensor_free(device, &a->h_mlp);
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
        backward_mlp(model, layer, a, grad);
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
    bool all = a->h_attention.data, convert = grad_kv.k.dtype != grad.dtype;
    bool descends = model_descends(model, layer), of_gain = w->attention_norm->grad.data;
    struct tensor h = all ? tensor_none() : scratch(model, most, c->width);
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
        normalize_and_rotate_backward(model, batch, w->q_norm, q,
                                      tensor_rows(a->rstd_q, row * c->heads, rows * c->heads),
                                      tensor_rows(a->q, row, rows), tokens);
        normalize_and_rotate_backward(model, batch, w->k_norm, kv.k,
                                      tensor_rows(a->rstd_k, row * c->kv_heads, rows * c->kv_heads),
                                      tensor_rows(a->k_projected, row, rows), tokens);
        struct tensor h_block = all ? tensor_rows(a->h_attention, row, rows) : tensor_rows(h, 0, rows);
        if (!all) {
            op_rmsnorm_forward(device, h_block, tensor_none(), x, w->attention_norm->value, c->norm_epsilon);
        }
        projection_backward_weights(model, &w->q, q, h_block);
        projection_backward_weights(model, &w->k, kv.k, h_block);
        projection_backward_weights(model, &w->v, kv.v, h_block);
        if (descends || of_gain) {
            projection_backward_input(model, &w->q, h_block, q, false);
            projection_backward_input(model, &w->k, h_block, kv.k, true);
            projection_backward_input(model, &w->v, h_block, kv.v, true);
            op_rmsnorm_backward(device, descends ? tensor_rows(grad, row, rows) : tensor_none(), true,
                                w->attention_norm->grad, h_block, x, w->attention_norm->value,
                                tensor_rows(a->rstd_attention, row, rows));
        }
    }
    kv_free(model, &converted);
    tensor_free(device, &h);
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
    projection_backward_input(model, &w->o, grad_o, grad, false);
    projection_backward_weights(model, &w->o, grad, a->o);
    struct tensor q = a->q;
    if (w->q_norm) {
        q = scratch(model, n, a->q.cols);
        normalize_and_rotate(model, batch, w->q_norm, q, tensor_none(), a->q, chunk);
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
