// Attention: o = softmax(q k^T) v per head, over the keys of the chunk and of those to its left; q, k, v are
// projected from the norm of x, or x. Its carry is keys and values. A head may have a sink in its softmax, and a
// gate of its output, which is projected with its query.
#include "kernels/attention/all_to_all.h"
#include "kernels/attention/attend.h"
#include "kernels/attention/attention_shape.h"
#include "kernels/layers/block_ends.h"
#include "kernels/layers/rotation.h"

enum { Q, K, V, QKV, Q_NORM, K_NORM, SINKS, O };

static const struct block_parameter parameters[] = {
    [Q] = {"self_attn.q_proj", LORA_Q},
    [K] = {"self_attn.k_proj", LORA_K},
    [V] = {"self_attn.v_proj", LORA_V},
    [QKV] = {"self_attn.qkv_proj", LORA_QKV, .joins = 3},
    [Q_NORM] = {"self_attn.q_norm"},
    [K_NORM] = {"self_attn.k_norm"},
    [SINKS] = {"self_attn.sinks", .form = FORM_VECTOR, .deviation = 1},
    [O] = {"self_attn.o_proj", LORA_O},
    {0}};

static const struct layer_kind *kind_of(const struct model *model, size_t layer)
{
    return config_kind(&model->config, layer);
}
static size_t q_cols(const struct layer_kind *kind)
{
    return kind->heads * kind->head_dim;
}
static size_t kv_cols(const struct layer_kind *kind)
{
    return kind->kv_heads * kind->head_dim;
}

static struct block_shape shape(const struct config *c, size_t layer, size_t parameter)
{
    const struct layer_kind *kind = config_kind(c, layer);
    size_t q = q_cols(kind), kv = kv_cols(kind), none = 0;
    const struct block_shape shapes[] = {
        [Q] = {kind->gated ? 2 * q : q, c->width, c->qkv_bias},
        [K] = {kv, c->width, c->qkv_bias},
        [V] = {kind->k_is_v ? none : kv, c->width, !kind->k_is_v && c->qkv_bias},
        [QKV] = {0},
        [Q_NORM] = {!c->qk_norm        ? none
                    : c->whole_qk_norm ? q
                                       : kind->head_dim},
        [K_NORM] = {!c->qk_norm        ? none
                    : c->whole_qk_norm ? kv
                                       : kind->head_dim},
        [SINKS] = {kind->sinks ? kind->heads : none},
        [O] = {c->width, q, c->o_bias},
    };
    return shapes[parameter];
}

static const struct block *block_of(const struct model *model, size_t layer)
{
    return &model->layers[layer].mixer;
}

// Scores are products of queries and keys: queries alone are multiplied by the gain of both.
static struct rotated rotated_queries(const struct model *model, size_t layer)
{
    const struct layer_kind *kind = kind_of(model, layer);
    double gain = rope_gain(kind);
    return (struct rotated){.layer = layer,
                            .heads = kind->heads,
                            .norm = block_of(model, layer)->parameters[Q_NORM].weight,
                            .scale = kind->query_scale,
                            .gain = gain * gain,
                            .by_position = kind->position_scale};
}

static struct rotated rotated_keys(const struct model *model, size_t layer)
{
    return (struct rotated){.layer = layer,
                            .heads = kind_of(model, layer)->kv_heads,
                            .norm = block_of(model, layer)->parameters[K_NORM].weight};
}

// ---- from x to queries, keys and values

// rows: [n, G D] as one row per head
static struct tensor values_by_head(const struct model *model, size_t layer, struct tensor rows)
{
    const struct layer_kind *kind = kind_of(model, layer);
    return tensor_reshape(rows, rows.rows * kind->kv_heads, rows.cols / kind->kv_heads);
}

// v: the norm of values, if they have one, of what is projected for them, or of the keys that they are. rstd may be
// no tensor.
static void values_forward(struct model *model, size_t layer, struct tensor v, struct tensor rstd,
                           struct tensor projected)
{
    if (kind_of(model, layer)->v_norm)
        norm_forward(model, NULL, values_by_head(model, layer, v), rstd, values_by_head(model, layer, projected));
}

// Results of one pass over a chunk's x, in which x is normed once: products of its norm, or of x, before their
// own norms and RoPE, and statistics. No tensor: not that one.
struct projected {
    struct tensor q, gate, k, v, h; // gate: projected with q; h: the norm of x
    struct tensor rstd, rstd_k, rstd_v;
};

// Rows of queries and gates in one, [rows H, 2 D]: each head's query, then its gate.
static struct tensor heads_of(const struct model *model, size_t layer, struct tensor rows, size_t parts)
{
    const struct layer_kind *kind = kind_of(model, layer);
    return tensor_reshape(rows, rows.rows * kind->heads, parts * kind->head_dim);
}

static void split_gate(struct model *model, size_t layer, struct tensor q, struct tensor gate, struct tensor both)
{
    size_t D = kind_of(model, layer)->head_dim;
    op_copy_columns(model->device, heads_of(model, layer, q, 1), 0, heads_of(model, layer, both, 2), 0, D);
    op_copy_columns(model->device, heads_of(model, layer, gate, 1), 0, heads_of(model, layer, both, 2), D, D);
}

static void join_gate(struct model *model, size_t layer, struct tensor both, struct tensor q, struct tensor gate)
{
    size_t D = kind_of(model, layer)->head_dim;
    op_copy_columns(model->device, heads_of(model, layer, both, 2), 0, heads_of(model, layer, q, 1), 0, D);
    op_copy_columns(model->device, heads_of(model, layer, both, 2), D, heads_of(model, layer, gate, 1), 0, D);
}

static void projections_forward(struct model *model, size_t layer, struct tensor x, const struct projected *to)
{
    const struct block *block = block_of(model, layer);
    const struct projection *p = block->parameters;
    struct rotated keys = rotated_keys(model, layer);
    size_t n = x.rows, max = block_rows(model, layer, n), norms = rotated_norms(model, keys);
    size_t heads = kind_of(model, layer)->kv_heads;
    struct tensor h = {0}, normed = {0}, both = {0};
    if (block->norm && !to->h.data)
        h = scratch(model, max, x.cols);
    if (to->gate.data)
        both = scratch(model, max, 2 * to->q.cols);
    if (to->rstd_k.data)
        normed = scratch(model, max, to->k.cols);
    for (struct blocks b = blocks_of(model->device, n, max); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor k = tensor_rows(to->k, row, rows);
        struct tensor in = block_input(model, block, to->h, to->rstd, h, x, row, rows);
        if (to->gate.data) {
            struct tensor of_rows = tensor_rows(both, 0, rows);
            projection_forward(model, &p[Q], of_rows, in, false);
            split_gate(model, layer, tensor_rows(to->q, row, rows), tensor_rows(to->gate, row, rows), of_rows);
        } else if (to->q.data) {
            projection_forward(model, &p[Q], tensor_rows(to->q, row, rows), in, false);
        }
        if (to->k.data)
            projection_forward(model, &p[K], k, in, false);
        if (to->v.data)
            projection_forward(model, &p[V], tensor_rows(to->v, row, rows), in, false);
        if (to->rstd_k.data) {
            rotated_norm(model, keys, tensor_rows(normed, 0, rows),
                         tensor_rows(to->rstd_k, row * norms, rows * norms), k);
        }
        if (to->rstd_v.data) {
            values_forward(model, layer, tensor_rows(normed, 0, rows),
                           tensor_rows(to->rstd_v, row * heads, rows * heads),
                           to->v.data ? tensor_rows(to->v, row, rows) : k);
        }
    }
    tensor_free(model->device, &both);
    tensor_free(model->device, &normed);
    tensor_free(model->device, &h);
}

// The queries of n rows with their gates, and what is kept with them of the norm of x.
static struct projected projected_queries(struct model *model, size_t layer, size_t n, struct kept *kept,
                                          enum keep how)
{
    const struct layer_kind *kind = kind_of(model, layer);
    kept->own[ATTENTION_Q] = activation(model, n, q_cols(kind));
    if (kind->gated)
        kept->gate = activation(model, n, q_cols(kind));
    block_keep_input(model, block_of(model, layer), kept, n, how);
    return (struct projected){.q = kept->own[ATTENTION_Q], .gate = kept->gate, .h = kept->h, .rstd = kept->rstd};
}

// Keys, and perhaps values, of n rows before their norms, for these norms' backward.
static void keep_keys(struct model *model, struct rotated keys, size_t n, struct kept *kept, struct projected *to)
{
    const struct layer_kind *kind = kind_of(model, keys.layer);
    to->k = kept->own[ATTENTION_K] = activation(model, n, kv_cols(kind));
    to->rstd_k = kept->own[ATTENTION_RSTD_K] = norm_statistics(model, n * rotated_norms(model, keys));
    if (kind->v_norm && !kind->k_is_v)
        to->v = kept->own[ATTENTION_V] = activation(model, n, kv_cols(kind));
    if (kind->v_norm)
        to->rstd_v = kept->own[ATTENTION_RSTD_V] = norm_statistics(model, n * kind->kv_heads);
}

static void project(struct cell_at at, struct tensor x, struct carry kv, struct activations *a, enum keep how,
                    bool ahead)
{
    struct kept *kept = &a->mixer;
    struct rotated keys = rotated_keys(at.model, at.layer);
    size_t n = x.rows;
    struct projected to = {0};
    kv = carry_rows(kv, at.chunk.start * (n / at.chunk.count), n);
    if (ahead)
        to = projected_queries(at.model, at.layer, n, kept, how);
    to.k = kv.k, to.v = kind_of(at.model, at.layer)->k_is_v ? tensor_none() : kv.v;
    if (how != KEEP_NOTHING && keys.norm && !batch_is_shared(at.batch)) {
        keep_keys(at.model, keys, n, kept, &to);
        to.rstd_k = to.rstd_v = tensor_none();
    }
    projections_forward(at.model, at.layer, x, &to);
    values_forward(at.model, at.layer, kv.v, kept->own[ATTENTION_RSTD_V], to.v.data ? to.v : to.k);
    rotate(at.model, at.batch, keys, kv.k, kept->own[ATTENTION_RSTD_K], to.k, at.chunk);
}

static void project_block(struct model *model, size_t layer, size_t row, struct tensor x, struct carry kv)
{
    struct carry own = carry_rows(kv, row, x.rows);
    struct tensor v = kind_of(model, layer)->k_is_v ? tensor_none() : own.v;
    projections_forward(model, layer, x, &(struct projected){.k = own.k, .v = v});
}

static void finish(struct cell_at at, struct carry kv)
{
    bool k_is_v = kind_of(at.model, at.layer)->k_is_v;
    values_forward(at.model, at.layer, kv.v, tensor_none(), k_is_v ? kv.k : kv.v);
    rotate(at.model, at.batch, rotated_keys(at.model, at.layer), kv.k, tensor_none(), kv.k, at.chunk);
}

// Returns the queries as attention reads them: those that are kept, or with qk_norm a scratch tensor beside them.
// Projects them, and the keys once more whose norm's backward needs them, unless `project` did.
static struct tensor queries(struct cell_at at, struct tensor x, struct kept *kept, enum keep how)
{
    struct model *model = at.model;
    struct rotated of = rotated_queries(model, at.layer), keys = rotated_keys(model, at.layer);
    size_t n = x.rows;
    bool keeping = how != KEEP_NOTHING;
    if (keeping && of.norm)
        kept->own[ATTENTION_RSTD_Q] = norm_statistics(model, n * rotated_norms(model, of));
    if (!kept->own[ATTENTION_Q].data) {
        struct projected to = projected_queries(model, at.layer, n, kept, how);
        if (keeping && keys.norm && !kept->own[ATTENTION_K].data && !batch_is_shared(at.batch))
            keep_keys(model, keys, n, kept, &to);
        projections_forward(model, at.layer, x, &to);
    }
    struct tensor own = kept->own[ATTENTION_Q], q = keeping && of.norm ? scratch(model, n, own.cols) : own;
    rotate(model, at.batch, of, q, kept->own[ATTENTION_RSTD_Q], own, at.chunk);
    return q;
}

// A layer's sinks join the softmax when all keys have.
static void sinks_forward(struct model *model, size_t layer, const struct kept *kept)
{
    const struct parameter *sinks = block_of(model, layer)->parameters[SINKS].weight;
    struct tensor o = kept->own[ATTENTION_O];
    if (sinks && o.rows > 0)
        op_attention_sink_forward(model->device, o, kept->own[ATTENTION_LOGSUMEXP], sinks->value);
}

static void sinks_backward(struct model *model, size_t layer, const struct kept *kept, struct tensor grad_o)
{
    const struct parameter *sinks = block_of(model, layer)->parameters[SINKS].weight;
    if (sinks && sinks->grad.data && grad_o.rows > 0) {
        op_attention_sink_backward(model->device, sinks->grad, grad_o, kept->own[ATTENTION_O],
                                   kept->own[ATTENTION_LOGSUMEXP], sinks->value);
    }
}

static void forward(struct cell_at at, struct tensor x, struct carry kv, struct activations *a, enum keep how)
{
    struct model *model = at.model;
    const struct layer_kind *kind = kind_of(model, at.layer);
    struct kept *kept = &a->mixer;
    struct tensor q = x.rows > 0 ? queries(at, x, kept, how) : tensor_none(), *own = &kept->own[ATTENTION_Q];
    if (x.rows > 0 && a->output == OUTPUT_OWN) {
        kept->own[ATTENTION_O] = activation(model, x.rows, q_cols(kind));
        kept->own[ATTENTION_LOGSUMEXP] = statistic(model, x.rows, kind->heads);
    }
    if (a->output != OUTPUT_WRITTEN) {
        attend(model, at.batch, at.layer, at.chunk, kept, q, kv);
        sinks_forward(model, at.layer, kept);
    }
    if (q.data != own->data)
        tensor_free(model->device, &q);
    if (how == KEEP_NOTHING)
        tensor_free(model->device, own);
}

// ---- from the gradients of queries, keys and values to that of x

// Operands of the blocks of rows.
struct projections {
    struct cell_at at;
    const struct kept *kept;
    const struct tensor *grad_q; // NULL: of keys and values alone
    const struct carry *grad_kv; // NULL: of queries alone
    struct tensor x, grad;
    struct tensor h;        // of a block; no tensor: it is kept, or x, where there is no norm
    struct tensor both;     // gradients of queries and gates of a block; no tensor: there are no gates
    struct carry converted; // of a block, in grad's dtype; no tensors: the gradients are
};

// The values' gradients become those of what is projected, or are added to those of the keys that they are.
static void values_backward(const struct projections *p, struct carry kv, size_t row)
{
    struct model *model = p->at.model;
    size_t layer = p->at.layer, rows = kv.v.rows, heads = kind_of(model, layer)->kv_heads;
    const struct tensor *own = p->kept->own;
    bool k_is_v = kind_of(model, layer)->k_is_v;
    if (kind_of(model, layer)->v_norm) {
        norm_backward(model, NULL, values_by_head(model, layer, k_is_v ? kv.k : kv.v), k_is_v,
                      values_by_head(model, layer, kv.v),
                      values_by_head(model, layer, tensor_rows(own[k_is_v ? ATTENTION_K : ATTENTION_V], row, rows)),
                      tensor_rows(own[ATTENTION_RSTD_V], row * heads, rows * heads));
    }
}

// The block's gradients of keys and values, with RoPE and norms undone.
static struct carry block_of_kv(const struct projections *p, size_t row, size_t rows, struct span tokens)
{
    struct device *device = p->at.model->device;
    struct rotated keys = rotated_keys(p->at.model, p->at.layer);
    size_t norms = rotated_norms(p->at.model, keys);
    struct carry kv = carry_rows(*p->grad_kv, row, rows);
    if (kv.k.dtype != p->grad.dtype) {
        struct carry narrow = carry_rows(p->converted, 0, rows);
        op_copy(device, narrow.k, kv.k);
        op_copy(device, narrow.v, kv.v);
        kv = narrow;
    }
    rotate_backward(p->at.model, p->at.batch, keys, kv.k,
                    tensor_rows(p->kept->own[ATTENTION_RSTD_K], row * norms, rows * norms),
                    tensor_rows(p->kept->own[ATTENTION_K], row, rows), tokens);
    values_backward(p, kv, row);
    return kv;
}

static struct tensor block_of_q(const struct projections *p, size_t row, size_t rows, struct span tokens)
{
    struct rotated of = rotated_queries(p->at.model, p->at.layer);
    size_t norms = rotated_norms(p->at.model, of);
    struct tensor q = tensor_rows(*p->grad_q, row, rows);
    rotate_backward(p->at.model, p->at.batch, of, q,
                    tensor_rows(p->kept->own[ATTENTION_RSTD_Q], row * norms, rows * norms),
                    tensor_rows(p->kept->own[ATTENTION_Q], row, rows), tokens);
    if (!p->both.data)
        return q;
    struct tensor both = tensor_rows(p->both, 0, rows);
    join_gate(p->at.model, p->at.layer, both, q, tensor_rows(p->kept->gate, row, rows));
    return both;
}

static void block_backward(const struct projections *p, size_t row, size_t rows, struct span tokens)
{
    struct model *model = p->at.model;
    const struct block *block = block_of(model, p->at.layer);
    const struct projection *w = block->parameters;
    bool descends = model_descends(model, p->at.layer), normed = block->norm;
    struct tensor q = p->grad_q ? block_of_q(p, row, rows, tokens) : tensor_none();
    struct carry kv = p->grad_kv ? block_of_kv(p, row, rows, tokens) : (struct carry){0};
    struct tensor h = block_input_again(model, block, p->kept, p->h, p->x, row, rows);
    struct tensor grad_u_q = {0}, grad_u_k = {0}, grad_u_v = {0};
    if (p->grad_q)
        projection_backward_weights(model, &w[Q], q, &grad_u_q, h);
    if (p->grad_kv)
        projection_backward_weights(model, &w[K], kv.k, &grad_u_k, h);
    if (p->grad_kv && w[V].weight)
        projection_backward_weights(model, &w[V], kv.v, &grad_u_v, h);
    // Without a norm the gradient is added where that of x is summed; else it takes the place of h.
    struct tensor grad = tensor_rows(p->grad, row, rows), grad_h = normed ? h : grad;
    bool needed = block_input_needed(block, descends);
    if (p->grad_q && needed)
        projection_backward_input(model, &w[Q], grad_h, q, &grad_u_q, !normed);
    if (p->grad_kv && needed)
        projection_backward_input(model, &w[K], grad_h, kv.k, &grad_u_k, !normed || p->grad_q);
    if (p->grad_kv && needed && w[V].weight)
        projection_backward_input(model, &w[V], grad_h, kv.v, &grad_u_v, true);
    tensor_free(model->device, &grad_u_v);
    tensor_free(model->device, &grad_u_k);
    tensor_free(model->device, &grad_u_q);
    block_input_backward(model, block, p->kept, descends, grad, h, p->x, row);
}

static void projections_backward(struct projections p)
{
    struct model *model = p.at.model;
    size_t n = p.grad.rows, B = n / p.at.chunk.count, max = block_token_rows(model, p.at.layer, n, B);
    if (!p.kept->h.data && block_of(model, p.at.layer)->norm)
        p.h = scratch(model, max, model->config.width);
    if (p.grad_q && p.kept->gate.data)
        p.both = scratch(model, max, 2 * p.grad_q->cols);
    if (p.grad_kv && p.grad_kv->k.dtype != p.grad.dtype)
        p.converted = carry_like(model, *p.grad_kv, max, p.grad.dtype, CATEGORY_WORKSPACE);
    struct token_run runs[PIECES];
    size_t count = pieces_runs(&p.at.batch->pieces, p.at.chunk, runs);
    for (size_t i = 0; i < count; i++) {
        size_t first = runs[i].first, row = (first - p.at.chunk.start) * B;
        for (struct blocks b = blocks_of(model->device, runs[i].count * B, max); blocks_next(&b);)
            block_backward(&p, row + b.row, b.count, (struct span){first + b.row / B, b.count / B});
    }
    carry_free(model, &p.converted);
    tensor_free(model->device, &p.both);
    tensor_free(model->device, &p.h);
}

// grad_q: that of o, becomes that of q. A gate is already its gradient.
static void backward(struct cell_at at, const struct activations *a, struct carry kv,
                     const struct carry_segment *segments, size_t count, struct tensor grad_q, struct tensor grad)
{
    struct model *model = at.model;
    const struct kept *kept = &a->mixer;
    struct rotated of = rotated_queries(model, at.layer);
    struct tensor q = kept->own[ATTENTION_Q];
    sinks_backward(model, at.layer, kept, grad_q);
    if (grad.rows > 0 && of.norm) {
        q = scratch(model, grad.rows, q.cols);
        rotate(model, at.batch, of, q, tensor_none(), kept->own[ATTENTION_Q], at.chunk);
    }
    attend_backward(model, at.batch, at.layer, at.chunk, kept, q, kv, segments, count, grad_q);
    if (grad.rows == 0)
        return;
    if (of.norm)
        tensor_free(model->device, &q);
    struct projections p = {.at = at, .kept = kept, .grad_q = &grad_q, .x = a->x, .grad = grad};
    struct carry grad_kv;
    if (!batch_is_shared(at.batch)) {
        const struct carry_segment *own = &segments[count - 1];
        size_t B = grad.rows / at.chunk.count;
        CHECK(own->start <= at.chunk.start && at.chunk.start + at.chunk.count <= own->start + own->count);
        grad_kv = carry_rows(own->grad, (at.chunk.start - own->start) * B, grad.rows);
        p.grad_kv = &grad_kv;
    }
    projections_backward(p);
}

// Recomputes from x the other inputs of the backward of keys and values.
static void project_backward(struct cell_at at, struct tensor x, struct carry grad_kv, struct tensor grad)
{
    struct model *model = at.model;
    struct rotated keys = rotated_keys(model, at.layer);
    struct activations a = {0};
    struct projected to = {0};
    if (block_of(model, at.layer)->norm)
        to.rstd = a.mixer.rstd = norm_statistics(model, x.rows);
    if (keys.norm)
        keep_keys(model, keys, x.rows, &a.mixer, &to);
    projections_forward(model, at.layer, x, &to);
    projections_backward(
        (struct projections){.at = at, .kept = &a.mixer, .grad_kv = &grad_kv, .x = x, .grad = grad});
    activations_free(model->device, &a);
}

// ---- what it costs

static struct carry_shape carry(const struct model *model, size_t layer)
{
    const struct layer_kind *kind = kind_of(model, layer);
    size_t cols = kv_cols(kind);
    enum dtype dtype = model->device->ops->dtype, grad = model->kv_gradient_dtype;
    return (struct carry_shape){
        .value = {{cols, cols}, {dtype, dtype}}, .grad = {{cols, cols}, {grad, grad}}, .window = kind->window};
}

static struct pair_shape outputs(const struct model *model, size_t layer)
{
    const struct layer_kind *kind = kind_of(model, layer);
    enum dtype dtype = model->device->ops->dtype;
    return (struct pair_shape){{q_cols(kind), kind->heads}, {dtype, dtype_statistic(dtype)}};
}

static double kept_bytes(const struct model *model, size_t layer)
{
    const struct config *c = &model->config;
    const struct layer_kind *kind = kind_of(model, layer);
    size_t elements = (kind->gated ? 3 : 2) * q_cols(kind), statistics = kind->heads; // o, q, gate; logsumexp
    if (c->qk_norm) {
        elements += kv_cols(kind);
        statistics += (c->whole_qk_norm ? 2 : kind->heads + kind->kv_heads) * (c->centred ? 2 : 1);
    }
    if (kind->v_norm) {
        elements += kind->k_is_v ? 0 : kv_cols(kind);
        statistics += kind->kv_heads * (c->centred ? 2 : 1);
    }
    enum dtype dtype = model->device->ops->dtype;
    return (double)elements * dtype_bytes(dtype) + (double)statistics * dtype_bytes(dtype_statistic(dtype));
}

static double flops(const struct config *c, size_t layer, const struct batch *batch)
{
    const struct layer_kind *kind = config_kind(c, layer);
    return 4 * attention_pairs(batch, kind) * (double)q_cols(kind);
}

static bool check(const struct config *c, const struct layer_kind *kind, struct status *status)
{
    if (kind->value_dim > 0 || kind->q_rank > 0) {
        return status_set(status, STATUS_BAD_INPUT,
                          "value_dim and q_rank are of latent attention, which has a kv_rank above 0");
    }
    if (kind->v_norm && (!c->qk_norm || c->whole_qk_norm))
        return status_set(status, STATUS_BAD_INPUT, "v_norm requires qk_norm of each head");
    if (kind->k_is_v && !kind->v_norm)
        return status_set(status, STATUS_BAD_INPUT, "k_is_v requires v_norm");
    return config_check_scores(c, kind, status);
}

static bool shares(const struct config *c, size_t layer, enum exchange exchange, size_t ranks,
                   struct status *status)
{
    const struct layer_kind *kind = config_kind(c, layer);
    return exchange != EXCHANGE_ALL_TO_ALL || heads_divide(kind->heads, kind->kv_heads, ranks) ||
           status_set(status, STATUS_UNSUPPORTED,
                      "%zu ranks cannot share %zu query heads and %zu key heads evenly: use a number that "
                      "divides the first and divides the second or is a multiple of it, or another "
                      "parallel.exchange",
                      ranks, kind->heads, kind->kv_heads);
}

const struct mixer mixer_attention = {
    .kind = {.name = "attention", .parameters = parameters, .shape = shape, .kept_bytes = kept_bytes},
    .check = check,
    .carry = carry,
    .carries_heads = true,
    .outputs = outputs,
    .project = project,
    .project_block = project_block,
    .finish = finish,
    .forward = forward,
    .backward = backward,
    .shares = shares,
    .sends = attend_sends,
    .project_backward = project_backward,
    .flops = flops,
};
