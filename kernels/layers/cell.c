#include "kernels/layers/cell.h"
#include "kernels/attention/attend.h"
#include "kernels/layers/cell_parts.h"
#include "kernels/layers/mlp.h"

// Returns the queries as attention reads them: a->q, or with qk_norm, where that is kept, a scratch tensor beside
// it. Projects them, and the keys once more whose norm's backward needs them, unless kv_project did.
static struct tensor queries(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                             struct tensor x, struct activations *a, enum keep how)
{
    const struct config *c = &model->config;
    struct rotated of = rotated_queries(model, layer), keys = rotated_keys(model, layer);
    size_t n = x.rows;
    bool keeping = how != KEEP_NOTHING;
    if (keeping && of.norm)
        a->rstd_q = statistic(model, n * rotated_norms(model, of), 1);
    if (!a->q.data) {
        struct projected to = projected_queries(model, layer, n, a, how);
        if (keeping && keys.norm && !a->k_projected.data && !batch_is_shared(batch)) {
            to.k = a->k_projected = activation(model, n, c->kv_heads * c->head_dim);
            to.rstd_k = a->rstd_k = statistic(model, n * rotated_norms(model, keys), 1);
        }
        projections_forward(model, layer, x, &to);
    }
    struct tensor q = keeping && of.norm ? scratch(model, n, a->q.cols) : a->q;
    rotate(model, batch, of, q, a->rstd_q, a->q, chunk);
    return q;
}

// x_mid += the norm of o's projection.
static void add_normed_output(struct model *model, const struct layer *w, struct tensor x_mid,
                              struct activations *a, bool keeping)
{
    struct device *device = model->device;
    size_t n = x_mid.rows, max = block_rows(model, n);
    struct tensor normed = scratch(model, max, x_mid.cols);
    if (keeping) {
        a->attention_out = activation(model, n, x_mid.cols);
        a->rstd_attention_out = statistic(model, n, 1);
    }
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor y = tensor_rows(normed, 0, rows),
                      out = keeping ? tensor_rows(a->attention_out, row, rows) : y;
        projection_forward(model, &w->o, out, tensor_rows(a->o, row, rows), false);
        norm_forward(model, w->attention_out_norm, y, tensor_rows(a->rstd_attention_out, row, rows), out);
        op_accumulate(device, tensor_rows(x_mid, row, rows), y);
    }
    tensor_free(device, &normed);
}

// Of a: q, if keeping with what its backward needs; o and logsumexp.
static void attention_forward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                              struct tensor x, struct kv kv, struct activations *a, enum keep how)
{
    struct device *device = model->device;
    const struct config *c = &model->config;
    size_t n = x.rows;
    struct tensor q = queries(model, batch, layer, chunk, x, a, how);
    if (a->attention == ATTENTION_OWN) {
        a->o = activation(model, n, c->heads * c->head_dim);
        a->logsumexp = statistic(model, n, c->heads);
    }
    if (a->attention != ATTENTION_WRITTEN)
        attend(model, batch, layer, chunk, a, q, kv);
    if (q.data != a->q.data)
        tensor_free(device, &q);
    if (how == KEEP_NOTHING)
        tensor_free(device, &a->q);
}

// x_mid, which may be x.
static void output_forward(struct model *model, size_t layer, struct tensor x, struct tensor x_mid,
                           struct activations *a, bool keeping)
{
    const struct layer *w = &model->layers[layer];
    bool apart = x_mid.data != x.data;
    if (!w->attention_out_norm && apart) {
        projection_forward_onto(model, &w->o, x_mid, x, a->o);
        return;
    }
    if (apart)
        op_copy(model->device, x_mid, x);
    if (w->attention_out_norm)
        add_normed_output(model, w, x_mid, a, keeping);
    else
        projection_forward(model, &w->o, x_mid, a->o, true);
}

static void forward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                    struct tensor x, struct kv kv, struct tensor y, struct activations *a, enum keep how)
{
    bool keeping = how != KEEP_NOTHING;
    attention_forward(model, batch, layer, chunk, x, kv, a, how);
    // Nothing kept: x_mid is built where y will be.
    struct tensor x_mid = keeping ? activation(model, x.rows, model->config.width) : y;
    output_forward(model, layer, x, x_mid, a, keeping);
    if (keeping)
        a->x_mid = x_mid;
    else
        activations_free(model, a);
    mlp_forward(model, layer, x_mid, y, a, how);
}

void cell_forward(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct tensor x,
                  struct kv kv, struct tensor y, struct activations *a, enum keep how)
{
    struct memo_use use = {0};
    if (x.rows == 0) {
        if (a->attention != ATTENTION_WRITTEN)
            attend(model, batch, layer, chunk, a, tensor_none(), kv); // with the others
        return;
    }
    struct cell_key key = cell_key_of(model, batch, CELL_FORWARD, layer, chunk, x.rows);
    key.how = how;
    key.has_output = y.data != NULL;
    key.in_place = y.data == x.data;
    cell_range_push(model, "cell_forward", layer, chunk.start);
    a->x = x;
    if (attend_sends(model, batch) || !cell_memo_begin(model, &use, key, a)) {
        forward(model, batch, layer, chunk, x, kv, y, a, how);
        cell_memo_end(model, &use, a);
    }
    range_pop(model->device);
}

void cell_attend_forward(struct model *model, const struct batch *batch, size_t layer, struct tensor x,
                         struct kv kv, struct activations *a, enum keep how)
{
    struct span all = {0, batch->context};
    a->x = x;
    if (x.rows > 0) {
        cell_range_push(model, "cell_attend_forward", layer, 0);
        attention_forward(model, batch, layer, all, x, kv, a, how);
        range_pop(model->device);
    } else if (a->attention != ATTENTION_WRITTEN) {
        attend(model, batch, layer, all, a, tensor_none(), kv); // with the others
    }
}

void cell_output_forward(struct model *model, size_t layer, struct span chunk, struct tensor x,
                         struct activations *a, enum keep how)
{
    CHECK(a->attention == ATTENTION_WRITTEN);
    if (x.rows == 0)
        return;
    cell_range_push(model, "cell_output_forward", layer, chunk.start);
    a->x = x;
    a->x_mid = activation(model, x.rows, model->config.width);
    output_forward(model, layer, x, a->x_mid, a, true);
    mlp_forward(model, layer, a->x_mid, tensor_none(), a, how);
    range_pop(model->device);
}

// grad: that of y, becomes that of x_mid.
void cell_backward_mlp(struct model *model, size_t layer, struct span chunk, struct activations *a,
                       struct tensor grad)
{
    struct memo_use use;
    const struct cell_key key = {.part = CELL_BACKWARD_MLP,
                                 .rows = grad.rows,
                                 .training = unit_training(model, unit_of_layer(layer)),
                                 .alike = model->layers[layer].alike};
    if (grad.rows == 0)
        return;
    cell_range_push(model, "cell_backward_mlp", layer, chunk.start);
    unit_add(model, unit_of_layer(layer));
    if (!cell_memo_begin(model, &use, key, a)) {
        mlp_backward(model, layer, a, grad);
        cell_memo_end(model, &use, a);
    }
    range_pop(model->device);
}

// grad_o: that of what attention made, from that of x_mid, through the norm of its projection if it has one.
static void output_backward(struct model *model, const struct layer *w, struct tensor grad_o, struct activations *a,
                            struct tensor grad)
{
    struct device *device = model->device;
    if (!w->attention_out_norm) {
        projection_backward(model, &w->o, grad_o, grad, a->o);
        return;
    }
    size_t n = grad.rows, max = block_rows(model, n);
    struct tensor grad_out = scratch(model, max, grad.cols);
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor block = tensor_rows(grad_out, 0, rows);
        norm_backward(model, w->attention_out_norm, block, false, tensor_rows(grad, row, rows),
                      tensor_rows(a->attention_out, row, rows), tensor_rows(a->rstd_attention_out, row, rows));
        projection_backward(model, &w->o, tensor_rows(grad_o, row, rows), block, tensor_rows(a->o, row, rows));
    }
    tensor_free(device, &grad_out);
    tensor_free(device, &a->attention_out);
}

// grad_q: that of o, becomes that of q. grad: that of x_mid, becomes that of x, or is spent. Frees the activations.
static void attention_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                               struct activations *a, struct kv kv, const struct key_segment *segments,
                               size_t segment_count, struct tensor grad_q, struct tensor grad)
{
    struct device *device = model->device;
    const struct layer *w = &model->layers[layer];
    size_t n = grad.rows;
    struct tensor q = a->q;
    if (w->q_norm) {
        q = scratch(model, n, a->q.cols);
        rotate(model, batch, rotated_queries(model, layer), q, tensor_none(), a->q, chunk);
    }
    attend_backward(model, batch, layer, chunk, a, q, kv, segments, segment_count, grad_q);
    if (w->q_norm)
        tensor_free(device, &q);
    if (batch_is_shared(batch)) {
        projections_backward(model, batch, layer, chunk, a, &grad_q, NULL, grad);
    } else {
        const struct key_segment *own = &segments[segment_count - 1];
        size_t B = n / chunk.count;
        CHECK(own->start <= chunk.start && chunk.start + chunk.count <= own->start + own->count);
        struct kv grad_kv = kv_rows((struct kv){own->grad_k, own->grad_v}, (chunk.start - own->start) * B, n);
        projections_backward(model, batch, layer, chunk, a, &grad_q, &grad_kv, grad);
    }
    activations_free(model, a);
}

static void backward_attention(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                               struct activations *a, struct kv kv, const struct key_segment *segments,
                               size_t segment_count, struct tensor grad)
{
    struct tensor grad_o = scratch(model, grad.rows, model->config.heads * model->config.head_dim);
    output_backward(model, &model->layers[layer], grad_o, a, grad);
    attention_backward(model, batch, layer, chunk, a, kv, segments, segment_count, grad_o, grad); // in place
    tensor_free(model->device, &grad_o);
}

void cell_output_backward(struct model *model, size_t layer, struct span chunk, struct activations *a,
                          struct tensor grad_o, struct tensor grad)
{
    cell_backward_mlp(model, layer, chunk, a, grad);
    if (grad.rows > 0) {
        cell_range_push(model, "cell_output_backward", layer, chunk.start);
        output_backward(model, &model->layers[layer], grad_o, a, grad);
        activations_free(model, a);
        range_pop(model->device);
    }
}

void cell_attend_backward(struct model *model, const struct batch *batch, size_t layer, struct activations *a,
                          struct kv kv, struct key_segment keys, struct tensor grad_q, struct tensor grad)
{
    struct span all = {0, batch->context};
    if (grad.rows == 0) {
        attend_backward(model, batch, layer, all, a, tensor_none(), kv, &keys, 1, tensor_none());
        return;
    }
    cell_range_push(model, "cell_attend_backward", layer, 0);
    attention_backward(model, batch, layer, all, a, kv, &keys, 1, grad_q, grad);
    range_pop(model->device);
}

// grad: that of x_mid, becomes that of x, or is spent.
void cell_backward_attention(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                             struct activations *a, struct kv kv, const struct key_segment *segments,
                             size_t segment_count, struct tensor grad)
{
    struct memo_use use = {0};
    if (grad.rows == 0) {
        attend_backward(model, batch, layer, chunk, a, tensor_none(), kv, segments, segment_count, tensor_none());
        return;
    }
    struct cell_key key = cell_key_of(model, batch, CELL_BACKWARD_ATTENTION, layer, chunk, grad.rows);
    key.training = unit_training(model, unit_of_layer(layer));
    key.descends = model_descends(model, layer);
    size_t end = key.further_count ? key.further_start + key.further_count : key.start + key.count;
    key.segment_start = segments[0].start;
    key.segment_count = segment_before(segments[0], end, grad.rows / chunk.count).count;
    key.segment_dtype = segments[0].grad_k.dtype;
    cell_range_push(model, "cell_backward_attention", layer, chunk.start);
    bool again = segment_count == 1 && !attend_sends(model, batch); // many have too many forms to come twice
    if (!again || !cell_memo_begin(model, &use, key, a)) {
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
