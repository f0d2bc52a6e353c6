// Latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values of all heads are projected from
// one latent per token, the norm of another projection; the last `rotary` numbers of each key are the token's,
// shared by all heads, and they alone are rotated. The carry is the latent and these numbers. Keys and values are
// never kept: each cell projects those of its prefix again, forward and backward, a block of keys at a time, and
// adds their gradients at once to those of the latents and of the projection.
#include "kernels/attention/attention_shape.h"
#include "kernels/layers/block_ends.h"
#include "kernels/model/carry.h"

// Keys per block, if the model says none.
#define LATENT_BLOCK 4096
// Epsilon of the latents' norms: their class's default, whatever the model's is (transformers, DeepseekV3RMSNorm).
#define EPSILON 1e-6

enum { Q, Q_A, Q_NORM, Q_B, KV_A, KV_NORM, KV_B, O };

static const struct block_parameter parameters[] = {[Q] = {"self_attn.q_proj", LORA_Q},
                                                    [Q_A] = {"self_attn.q_a_proj", LORA_Q_A},
                                                    [Q_NORM] = {"self_attn.q_a_layernorm"},
                                                    [Q_B] = {"self_attn.q_b_proj", LORA_Q_B},
                                                    [KV_A] = {"self_attn.kv_a_proj_with_mqa", LORA_KV_A},
                                                    [KV_NORM] = {"self_attn.kv_a_layernorm"},
                                                    [KV_B] = {"self_attn.kv_b_proj", LORA_KV_B},
                                                    [O] = {"self_attn.o_proj", LORA_O},
                                                    {0}};

// A cell's kept tensors, after attention's outputs.
enum {
    LATENT_Q = ATTENTION_LOGSUMEXP + 1, // [n, H D], rotated
    LATENT_Q_A,                         // [n, q_rank], as projected, before its norm; and that norm's
    LATENT_RSTD_Q,                      // [n, 1]
    LATENT_KV_A,                        // [n, kv_rank], likewise
    LATENT_RSTD_KV,
    LATENT_KEPT
};
_Static_assert(LATENT_KEPT <= KEPT_OWN, "a cell has room for what latent attention keeps");

static const struct layer_kind *kind_of(const struct model *model, size_t layer)
{
    return config_kind(&model->config, layer);
}
static const struct block *block_of(const struct model *model, size_t layer)
{
    return &model->layers[layer].mixer;
}

static size_t q_cols(const struct layer_kind *kind)
{
    return kind->heads * kind->head_dim;
}
static size_t o_cols(const struct layer_kind *kind)
{
    return kind->heads * kind->value_dim;
}
// Numbers of a head's key that are its own, and those that KV_B gives a head.
static size_t own_dim(const struct layer_kind *kind)
{
    return kind->head_dim - kind->rotary;
}
static size_t expanded_dim(const struct layer_kind *kind)
{
    return own_dim(kind) + kind->value_dim;
}

static struct block_shape shape(const struct config *c, size_t layer, size_t parameter)
{
    const struct layer_kind *k = config_kind(c, layer);
    size_t none = 0;
    const struct block_shape shapes[] = {
        [Q] = {k->q_rank ? none : q_cols(k), c->width},
        [Q_A] = {k->q_rank, c->width, k->q_rank && c->qkv_bias},
        [Q_NORM] = {k->q_rank},
        [Q_B] = {k->q_rank ? q_cols(k) : none, k->q_rank},
        [KV_A] = {k->kv_rank + k->rotary, c->width, c->qkv_bias},
        [KV_NORM] = {k->kv_rank},
        [KV_B] = {k->heads * expanded_dim(k), k->kv_rank},
        [O] = {c->width, o_cols(k), c->o_bias},
    };
    return shapes[parameter];
}

static bool check(const struct config *c, const struct layer_kind *kind, struct status *status)
{
    if (kind->window > 0 || kind->sinks || kind->gated || kind->cap > 0 || c->qk_norm ||
        kind->rope == ROPE_PROPORTIONAL)
        return status_set(status, STATUS_BAD_INPUT,
                          "latent attention takes no window, sinks, gate, cap, qk_norm or proportional RoPE");
    if (kind->kv_heads != kind->heads) {
        return status_set(status, STATUS_BAD_INPUT,
                          "latent attention has keys of every head: kv_heads must be heads, found %zu and %zu",
                          kind->kv_heads, kind->heads);
    }
    return config_check_scores(kind, status) &&
           config_check_size("rotary of latent attention", kind->rotary, kind->head_dim - 1, status) &&
           config_check_size("value_dim", kind->value_dim, 512, status) &&
           config_check_size("kv_rank", kind->kv_rank, CONFIG_SIZE_MAX, status);
}

// ---- norms of latents, and rotation

static void latent_norm(struct model *model, size_t layer, size_t norm, struct tensor y, struct tensor rstd,
                        struct tensor x)
{
    const struct parameter *gain = block_of(model, layer)->parameters[norm].weight;
    op_rmsnorm_forward(model->device, y, rstd, x, gain->value, 0, EPSILON);
}

// grad: that of y above, becomes that of x.
static void latent_norm_backward(struct model *model, size_t layer, size_t norm, struct tensor grad,
                                 struct tensor x, struct tensor rstd)
{
    const struct parameter *gain = block_of(model, layer)->parameters[norm].weight;
    op_rmsnorm_backward(model->device, grad, false, gain->grad, grad, x, gain->value, 0, rstd);
}

// x: [n, rotary] per head, of these tokens: turned, and multiplied by gain.
static void turn(struct model *model, const struct batch *batch, size_t layer, struct tensor x, double gain,
                 struct span tokens, int direction)
{
    const struct layer_kind *kind = kind_of(model, layer);
    struct rope_shape shape = {kind->rotary, kind->rope == ROPE_INTERLEAVED, gain};
    if (kind->rope != ROPE_NONE)
        op_rope(model->device, x, model->rope_frequencies[kind - model->config.kinds], shape, tokens.start,
                x.rows / tokens.count, batch_documents(batch, tokens), direction);
}

static struct tensor by_head(const struct layer_kind *kind, struct tensor x)
{
    return tensor_reshape(x, x.rows * kind->heads, x.cols / kind->heads);
}

// q: [n, H D] of the tokens: what scores take of queries beside their projection. Scores are products of queries
// and keys, so that queries alone are multiplied by the gains of both. Linear, and its transpose where direction is
// -1.
static void turn_queries(struct model *model, const struct batch *batch, size_t layer, struct tensor q,
                         struct span tokens, int direction)
{
    const struct layer_kind *kind = kind_of(model, layer);
    struct device *device = model->device;
    size_t own = own_dim(kind), B = q.rows / tokens.count, max = block_token_rows(model, layer, q.rows, B);
    double gain = rope_gain(kind);
    struct tensor part = kind->rope != ROPE_NONE ? scratch(model, max, kind->heads * kind->rotary) : tensor_none();
    for (struct blocks b = blocks_of(device, part.data ? q.rows : 0, max); blocks_next(&b);) {
        struct tensor of_heads = by_head(kind, tensor_rows(q, b.row, b.count)),
                      turned = tensor_rows(part, 0, b.count);
        op_copy_columns(device, by_head(kind, turned), 0, of_heads, own, kind->rotary);
        turn(model, batch, layer, turned, gain * gain, (struct span){tokens.start + b.row / B, b.count / B},
             direction);
        op_copy_columns(device, of_heads, own, by_head(kind, turned), 0, kind->rotary);
    }
    tensor_free(device, &part);
    if (kind->query_scale > 0 && kind->query_scale != 1)
        op_scale(device, q, kind->query_scale);
}

// ---- from x to queries and latents

// Results of one pass over a chunk's x, in which x is normed once. No tensor: not that one.
struct projected {
    struct tensor q, q_a, rstd_q; // q before its rotation; q_a before its norm
    struct tensor c, k_rope, kv_a,
        rstd_kv;           // the latent, the shared numbers before rotation; kv_a: c before its norm
    struct tensor h, rstd; // the norm of x
};

static void project_queries(struct model *model, size_t layer, const struct projected *to, size_t row,
                            struct tensor in, struct tensor raw, struct tensor normed)
{
    const struct projection *p = block_of(model, layer)->parameters;
    struct tensor q = tensor_rows(to->q, row, in.rows);
    if (!p[Q_A].weight) {
        projection_forward(model, &p[Q], q, in, false);
        return;
    }
    raw = to->q_a.data ? tensor_rows(to->q_a, row, in.rows) : tensor_rows(raw, 0, in.rows);
    normed = tensor_rows(normed, 0, in.rows);
    projection_forward(model, &p[Q_A], raw, in, false);
    latent_norm(model, layer, Q_NORM, normed, tensor_rows(to->rstd_q, row, in.rows), raw);
    projection_forward(model, &p[Q_B], q, normed, false);
}

static void project_latents(struct model *model, size_t layer, const struct projected *to, size_t row,
                            struct tensor in, struct tensor both, struct tensor raw)
{
    const struct layer_kind *kind = kind_of(model, layer);
    struct device *device = model->device;
    both = tensor_rows(both, 0, in.rows);
    struct tensor kept = to->kv_a.data ? tensor_rows(to->kv_a, row, in.rows) : tensor_rows(raw, 0, in.rows);
    projection_forward(model, &block_of(model, layer)->parameters[KV_A], both, in, false);
    op_copy_columns(device, kept, 0, both, 0, kind->kv_rank);
    struct tensor c = to->c.data ? tensor_rows(to->c, row, in.rows) : tensor_rows(raw, 0, in.rows);
    latent_norm(model, layer, KV_NORM, c, tensor_rows(to->rstd_kv, row, in.rows), kept);
    if (to->k_rope.data)
        op_copy_columns(device, tensor_rows(to->k_rope, row, in.rows), 0, both, kind->kv_rank, kind->rotary);
}

static void projections_forward(struct model *model, size_t layer, struct tensor x, const struct projected *to)
{
    const struct block *block = block_of(model, layer);
    const struct layer_kind *kind = kind_of(model, layer);
    struct device *device = model->device;
    size_t n = x.rows, max = block_rows(model, layer, n);
    bool latents = to->c.data || to->kv_a.data, lean = to->q.data && kind->q_rank;
    struct tensor h = {0}, q_a = {0}, q_normed = {0}, both = {0}, kv_a = {0};
    if (block->norm && !to->h.data)
        h = scratch(model, max, x.cols);
    if (lean && !to->q_a.data)
        q_a = scratch(model, max, kind->q_rank);
    if (lean)
        q_normed = scratch(model, max, kind->q_rank);
    if (latents) {
        both = scratch(model, max, kind->kv_rank + kind->rotary);
        kv_a = scratch(model, max, kind->kv_rank);
    }
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        struct tensor in = block_input(model, block, to->h, to->rstd, h, x, b.row, b.count);
        if (to->q.data)
            project_queries(model, layer, to, b.row, in, q_a, q_normed);
        if (latents)
            project_latents(model, layer, to, b.row, in, both, kv_a);
    }
    tensor_free(device, &kv_a);
    tensor_free(device, &both);
    tensor_free(device, &q_normed);
    tensor_free(device, &q_a);
    tensor_free(device, &h);
}

// The queries of n rows, and what is kept with them of norms.
static struct projected projected_queries(struct model *model, size_t layer, size_t n, struct kept *kept,
                                          enum keep how)
{
    const struct layer_kind *kind = kind_of(model, layer);
    bool keeping = how != KEEP_NOTHING;
    kept->own[LATENT_Q] = activation(model, n, q_cols(kind));
    if (keeping && kind->q_rank) {
        kept->own[LATENT_Q_A] = activation(model, n, kind->q_rank);
        kept->own[LATENT_RSTD_Q] = statistic(model, n, 1);
    }
    block_keep_input(model, block_of(model, layer), kept, n, how);
    return (struct projected){.q = kept->own[LATENT_Q],
                              .q_a = kept->own[LATENT_Q_A],
                              .rstd_q = kept->own[LATENT_RSTD_Q],
                              .h = kept->h,
                              .rstd = kept->rstd};
}

// Latents of n rows before their norm, for its backward.
static void keep_latents(struct model *model, size_t layer, size_t n, struct kept *kept, struct projected *to)
{
    to->kv_a = kept->own[LATENT_KV_A] = activation(model, n, kind_of(model, layer)->kv_rank);
    to->rstd_kv = kept->own[LATENT_RSTD_KV] = statistic(model, n, 1);
}

static void project(struct cell_at at, struct tensor x, struct carry carry, struct activations *a, enum keep how,
                    bool ahead)
{
    struct kept *kept = &a->mixer;
    size_t n = x.rows;
    struct projected to = {0};
    carry = carry_rows(carry, at.chunk.start * (n / at.chunk.count), n);
    if (ahead)
        to = projected_queries(at.model, at.layer, n, kept, how);
    if (how != KEEP_NOTHING)
        keep_latents(at.model, at.layer, n, kept, &to);
    to.c = carry.t[0], to.k_rope = carry.t[1];
    projections_forward(at.model, at.layer, x, &to);
    turn(at.model, at.batch, at.layer, carry.t[1], 1, at.chunk, +1);
}

static void project_block(struct model *model, size_t layer, size_t row, struct tensor x, struct carry carry)
{
    struct carry own = carry_rows(carry, row, x.rows);
    projections_forward(model, layer, x, &(struct projected){.c = own.t[0], .k_rope = own.t[1]});
}

static void finish(struct cell_at at, struct carry carry)
{
    turn(at.model, at.batch, at.layer, carry.t[1], 1, at.chunk, +1);
}

// ---- attention, a block of keys after another

// Keys [first, first + count) of a cell, the queries that see some of them, from `query` on, and their attention.
struct key_block {
    struct cell_at at;
    size_t batch, size; // sequences; keys at most
    size_t first, count, query;
    struct attention_shape shape;
    struct tensor k, v; // of these keys: [count B, H D], [count B, H value_dim]
};

// A block of keys has positions of its own, and documents none but the context's: with these all keys are one
// block.
static struct key_block key_blocks_open(struct cell_at at, size_t rows)
{
    const struct layer_kind *kind = kind_of(at.model, at.layer);
    size_t end = at.chunk.start + at.chunk.count, block = at.model->latent_block;
    block = block ? block : LATENT_BLOCK;
    struct key_block b = {.at = at, .batch = rows / at.chunk.count};
    b.size = at.batch->starts || block > end ? end : block;
    b.k = scratch(at.model, b.size * b.batch, q_cols(kind));
    b.v = scratch(at.model, b.size * b.batch, o_cols(kind));
    return b;
}
static void key_blocks_close(struct key_block *b)
{
    tensor_free(b->at.model->device, &b->v);
    tensor_free(b->at.model->device, &b->k);
}

// Projects the block's keys and values from their latents.
static void expand(const struct key_block *b, struct carry latents)
{
    struct model *model = b->at.model;
    struct device *device = model->device;
    const struct layer_kind *kind = kind_of(model, b->at.layer);
    size_t rows = b->count * b->batch, max = block_rows(model, b->at.layer, rows), own = own_dim(kind);
    struct tensor both = scratch(model, max, kind->heads * expanded_dim(kind));
    for (struct blocks i = blocks_of(device, rows, max); blocks_next(&i);) {
        struct tensor made = tensor_rows(both, 0, i.count), k = tensor_rows(b->k, i.row, i.count);
        struct tensor v = tensor_rows(b->v, i.row, i.count), shared = tensor_rows(latents.t[1], i.row, i.count);
        projection_forward(model, &block_of(model, b->at.layer)->parameters[KV_B], made,
                           tensor_rows(latents.t[0], i.row, i.count), false);
        op_copy_columns(device, by_head(kind, k), 0, by_head(kind, made), 0, own);
        op_copy_heads(device, k, own, shared, kind->heads);
        op_copy_columns(device, by_head(kind, v), 0, by_head(kind, made), own, kind->value_dim);
    }
    tensor_free(device, &both);
}

// The next block, from the first key on, expanded; false: there is none.
static bool key_blocks_next(struct key_block *b, struct carry carry)
{
    const struct cell_at *at = &b->at;
    size_t start = at->chunk.start, end = start + at->chunk.count;
    b->first += b->count;
    b->count = end - b->first < b->size ? end - b->first : b->size;
    b->query = b->first > start ? b->first : start;
    if (b->count == 0)
        return false;
    struct token_run run = {.first = b->query, .start = b->query, .count = end - b->query};
    b->shape = attention_shape_of(&at->model->config, at->batch, at->layer, run, b->batch);
    b->shape.start -= b->first;
    b->shape.keys = b->count;
    expand(b, carry_rows(carry, b->first * b->batch, b->count * b->batch));
    return true;
}

// Rows of the queries that see the block's keys.
static struct tensor seeing(const struct key_block *b, struct tensor t)
{
    size_t row = (b->query - b->at.chunk.start) * b->batch;
    return tensor_rows(t, row, t.rows - row);
}

// o is summed over blocks in the accumulator's dtype.
static void attend(struct cell_at at, const struct kept *kept, struct tensor q, struct carry carry)
{
    struct device *device = at.model->device;
    struct tensor o = kept->own[ATTENTION_O], logsumexp = kept->own[ATTENTION_LOGSUMEXP];
    struct tensor sum = o, other = {0}, other_logsumexp = {0};
    struct key_block b = key_blocks_open(at, q.rows);
    bool several = b.size < at.chunk.start + at.chunk.count, apart = several && o.dtype != logsumexp.dtype;
    if (several) {
        other = scratch(at.model, o.rows, o.cols);
        other_logsumexp = tensor_new(device, logsumexp.rows, logsumexp.cols, logsumexp.dtype, CATEGORY_WORKSPACE);
    }
    if (apart)
        sum = tensor_new(device, o.rows, o.cols, logsumexp.dtype, CATEGORY_WORKSPACE);
    while (key_blocks_next(&b, carry)) {
        bool first = b.first == 0;
        op_attention_forward(device, b.shape, first ? o : seeing(&b, other),
                             first ? logsumexp : seeing(&b, other_logsumexp), seeing(&b, q), b.k, b.v);
        if (first && apart)
            op_copy(device, sum, o);
        else if (!first)
            op_attention_merge(device, seeing(&b, sum), seeing(&b, logsumexp), seeing(&b, other),
                               seeing(&b, other_logsumexp));
    }
    if (apart) {
        op_copy(device, o, sum);
        tensor_free(device, &sum);
    }
    tensor_free(device, &other_logsumexp);
    tensor_free(device, &other);
    key_blocks_close(&b);
}

static void forward(struct cell_at at, struct tensor x, struct carry carry, struct activations *a, enum keep how)
{
    struct model *model = at.model;
    const struct layer_kind *kind = kind_of(model, at.layer);
    struct kept *kept = &a->mixer;
    size_t n = x.rows;
    if (!kept->own[LATENT_Q].data) {
        struct projected to = projected_queries(model, at.layer, n, kept, how);
        if (how != KEEP_NOTHING && !kept->own[LATENT_KV_A].data)
            keep_latents(model, at.layer, n, kept, &to);
        projections_forward(model, at.layer, x, &to);
    }
    turn_queries(model, at.batch, at.layer, kept->own[LATENT_Q], at.chunk, +1);
    if (a->output == OUTPUT_OWN) {
        kept->own[ATTENTION_O] = activation(model, n, o_cols(kind));
        kept->own[ATTENTION_LOGSUMEXP] = statistic(model, n, kind->heads);
    }
    if (a->output != OUTPUT_WRITTEN)
        attend(at, kept, kept->own[LATENT_Q], carry);
    if (how == KEEP_NOTHING)
        tensor_free(model->device, &kept->own[LATENT_Q]);
}

// ---- from the gradient of o to those of queries, latents and x

// Gradients of keys and values of a part of the block, grad_k and grad_v, go to those of the latents, in `to`, and
// of the projection, where they are multiplied by the factor of their tokens.
static void fold(const struct key_block *b, struct tensor grad_k, struct tensor grad_v, struct carry latents,
                 struct carry to, double factor)
{
    struct model *model = b->at.model;
    struct device *device = model->device;
    const struct layer_kind *kind = kind_of(model, b->at.layer);
    const struct projection *p = &block_of(model, b->at.layer)->parameters[KV_B];
    size_t max = block_rows(model, b->at.layer, grad_k.rows), own = own_dim(kind);
    size_t cols = kind->heads * expanded_dim(kind);
    struct tensor wide = tensor_new(device, max, cols, grad_k.dtype, CATEGORY_WORKSPACE);
    struct tensor narrow = grad_k.dtype == latents.t[0].dtype ? tensor_none() : scratch(model, max, cols);
    for (struct blocks i = blocks_of(device, grad_k.rows, max); blocks_next(&i);) {
        struct tensor k = tensor_rows(grad_k, i.row, i.count), v = tensor_rows(grad_v, i.row, i.count);
        struct tensor both = tensor_rows(wide, 0, i.count), grad_u = {0};
        op_copy_columns(device, by_head(kind, both), 0, by_head(kind, k), 0, own);
        op_copy_columns(device, by_head(kind, both), own, by_head(kind, v), 0, kind->value_dim);
        op_sum_heads(device, tensor_rows(to.t[1], i.row, i.count), k, own, kind->heads);
        if (narrow.data) {
            op_copy(device, tensor_rows(narrow, 0, i.count), both);
            both = tensor_rows(narrow, 0, i.count);
        }
        projection_backward_input(model, p, tensor_rows(to.t[0], i.row, i.count), both, &grad_u, true);
        if (factor != 1) {
            op_scale(device, both, factor);
            if (grad_u.data)
                op_scale(device, grad_u, factor);
        }
        projection_backward_weights(model, p, both, &grad_u, tensor_rows(latents.t[0], i.row, i.count));
        tensor_free(device, &grad_u);
    }
    tensor_free(device, &narrow);
    tensor_free(device, &wide);
}

// The part of a segment that is in the block, counted from the block's first key; its gradients are rows of those
// of the block.
static struct key_segment within(const struct key_block *b, const struct carry_segment *s, struct tensor grad_k,
                                 struct tensor grad_v)
{
    size_t first = s->start > b->first ? s->start : b->first, end = s->start + s->count;
    end = end < b->first + b->count ? end : b->first + b->count;
    size_t start = first < end ? first - b->first : 0, count = first < end ? end - first : 0;
    return (struct key_segment){.start = start,
                                .count = count,
                                .grad_k = tensor_rows(grad_k, start * b->batch, count * b->batch),
                                .grad_v = tensor_rows(grad_v, start * b->batch, count * b->batch)};
}

// grad_q: not read. A key of another chunk's gives KV_B a gradient times that chunk's factor, because the cell
// gives it here what the chunk's own cells would have given its latent.
static void attend_backward(struct cell_at at, const struct kept *kept, struct carry carry,
                            const struct carry_segment *segments, size_t count, struct tensor grad_o,
                            struct tensor grad_q)
{
    struct model *model = at.model;
    struct device *device = model->device;
    enum dtype sums = dtype_statistic(device->ops->dtype);
    struct key_block b = key_blocks_open(at, grad_q.rows);
    struct tensor grad_k = tensor_new(device, b.k.rows, b.k.cols, sums, CATEGORY_WORKSPACE);
    struct tensor grad_v = tensor_new(device, b.v.rows, b.v.cols, sums, CATEGORY_WORKSPACE);
    struct key_segment *parts = calloc(count, sizeof *parts);
    CHECK(parts);
    while (key_blocks_next(&b, carry)) {
        size_t seen = 0;
        for (size_t i = 0; i < count; i++) {
            parts[seen] = within(&b, &segments[i], grad_k, grad_v);
            seen += parts[seen].count > 0;
        }
        for (size_t i = 0; i < seen; i++) {
            op_zero(device, parts[i].grad_k);
            op_zero(device, parts[i].grad_v);
        }
        op_attention_backward(device, b.shape, seeing(&b, grad_q), b.first > 0, parts, seen, seeing(&b, grad_o),
                              seeing(&b, kept->own[ATTENTION_O]), seeing(&b, kept->own[ATTENTION_LOGSUMEXP]),
                              seeing(&b, kept->own[LATENT_Q]), b.k, b.v);
        for (size_t i = 0; i < count; i++) {
            struct key_segment part = within(&b, &segments[i], grad_k, grad_v);
            size_t row = (b.first + part.start) * b.batch, rows = part.count * b.batch;
            double factor = i + 1 < count && segments[i].factor != 0 ? segments[i].factor : 1;
            if (rows > 0)
                fold(&b, part.grad_k, part.grad_v, carry_rows(carry, row, rows),
                     carry_rows(segments[i].grad, row - segments[i].start * b.batch, rows), factor);
        }
    }
    free(parts);
    tensor_free(device, &grad_v);
    tensor_free(device, &grad_k);
    key_blocks_close(&b);
}

// Operands of the blocks of rows.
struct projections {
    struct cell_at at;
    const struct kept *kept;
    struct tensor x, grad, grad_q;
    struct carry grad_carry; // of the chunk's own tokens
    // Scratch of a block: the norm of x, unless it is kept or there is none; the norm of q_a, and its gradient;
    // the latents' gradients in grad's dtype; both, side by side.
    struct tensor h, q_a, grad_q_a, grad_c, grad_k_rope, both;
};

// Gradients of the weights of queries; returns that of what the projection of h gives, Q's or Q_A's.
static struct tensor queries_backward(const struct projections *p, size_t row, struct tensor h,
                                      struct tensor *grad_u)
{
    struct model *model = p->at.model;
    const struct projection *w = block_of(model, p->at.layer)->parameters;
    struct tensor grad_q = tensor_rows(p->grad_q, row, h.rows), grad_u_b = {0};
    if (!w[Q_A].weight) {
        projection_backward_weights(model, &w[Q], grad_q, grad_u, h);
        return grad_q;
    }
    struct tensor raw = tensor_rows(p->kept->own[LATENT_Q_A], row, h.rows), normed = tensor_rows(p->q_a, 0, h.rows);
    struct tensor grad = tensor_rows(p->grad_q_a, 0, h.rows);
    latent_norm(model, p->at.layer, Q_NORM, normed, tensor_none(), raw);
    projection_backward_weights(model, &w[Q_B], grad_q, &grad_u_b, normed);
    projection_backward_input(model, &w[Q_B], grad, grad_q, &grad_u_b, false);
    tensor_free(model->device, &grad_u_b);
    latent_norm_backward(model, p->at.layer, Q_NORM, grad, raw,
                         tensor_rows(p->kept->own[LATENT_RSTD_Q], row, h.rows));
    projection_backward_weights(model, &w[Q_A], grad, grad_u, h);
    return grad;
}

// Returns the gradient of what KV_A gives, [rows, kv_rank + rotary].
static struct tensor latents_backward(const struct projections *p, size_t row, size_t rows, struct span tokens)
{
    struct model *model = p->at.model;
    struct device *device = model->device;
    const struct layer_kind *kind = kind_of(model, p->at.layer);
    struct carry own = carry_rows(p->grad_carry, row, rows);
    struct tensor c = own.t[0], k_rope = own.t[1], both = tensor_rows(p->both, 0, rows);
    if (c.dtype != p->grad.dtype) {
        c = tensor_rows(p->grad_c, 0, rows), k_rope = tensor_rows(p->grad_k_rope, 0, rows);
        op_copy(device, c, own.t[0]);
        op_copy(device, k_rope, own.t[1]);
    }
    turn(model, p->at.batch, p->at.layer, k_rope, 1, tokens, -1);
    latent_norm_backward(model, p->at.layer, KV_NORM, c, tensor_rows(p->kept->own[LATENT_KV_A], row, rows),
                         tensor_rows(p->kept->own[LATENT_RSTD_KV], row, rows));
    op_copy_columns(device, both, 0, c, 0, kind->kv_rank);
    op_copy_columns(device, both, kind->kv_rank, k_rope, 0, kind->rotary);
    return both;
}

static void block_backward(const struct projections *p, size_t row, size_t rows, struct span tokens)
{
    struct model *model = p->at.model;
    const struct block *block = block_of(model, p->at.layer);
    const struct projection *w = block->parameters, *first = w[Q_A].weight ? &w[Q_A] : &w[Q];
    bool descends = model_descends(model, p->at.layer), normed = block->norm;
    struct tensor h = block_input_again(model, block, p->kept, p->h, p->x, row, rows);
    struct tensor grad_u_q = {0}, grad_u_kv = {0}, grad_both = latents_backward(p, row, rows, tokens);
    struct tensor grad_first = queries_backward(p, row, h, &grad_u_q);
    projection_backward_weights(model, &w[KV_A], grad_both, &grad_u_kv, h);
    // Without a norm the gradient is added where that of x is summed; else it takes the place of h.
    struct tensor grad = tensor_rows(p->grad, row, rows), grad_h = normed ? h : grad;
    if (block_input_needed(block, descends)) {
        projection_backward_input(model, first, grad_h, grad_first, &grad_u_q, !normed);
        projection_backward_input(model, &w[KV_A], grad_h, grad_both, &grad_u_kv, true);
        block_input_backward(model, block, p->kept, descends, grad, h, p->x, row);
    }
    tensor_free(model->device, &grad_u_kv);
    tensor_free(model->device, &grad_u_q);
}

static void projections_backward(struct projections p)
{
    struct model *model = p.at.model;
    struct device *device = model->device;
    const struct layer_kind *kind = kind_of(model, p.at.layer);
    size_t n = p.grad.rows, B = n / p.at.chunk.count, max = block_token_rows(model, p.at.layer, n, B);
    bool narrow = p.grad_carry.t[0].dtype != p.grad.dtype;
    if (!p.kept->h.data && block_of(model, p.at.layer)->norm)
        p.h = scratch(model, max, model->config.width);
    if (kind->q_rank) {
        p.q_a = scratch(model, max, kind->q_rank);
        p.grad_q_a = scratch(model, max, kind->q_rank);
    }
    if (narrow) {
        p.grad_c = scratch(model, max, kind->kv_rank);
        p.grad_k_rope = scratch(model, max, kind->rotary);
    }
    p.both = scratch(model, max, kind->kv_rank + kind->rotary);
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);)
        block_backward(&p, b.row, b.count, (struct span){p.at.chunk.start + b.row / B, b.count / B});
    tensor_free(device, &p.both);
    tensor_free(device, &p.grad_k_rope);
    tensor_free(device, &p.grad_c);
    tensor_free(device, &p.grad_q_a);
    tensor_free(device, &p.q_a);
    tensor_free(device, &p.h);
}

static void backward(struct cell_at at, const struct activations *a, struct carry carry,
                     const struct carry_segment *segments, size_t count, struct tensor grad_o, struct tensor grad)
{
    struct model *model = at.model;
    const struct kept *kept = &a->mixer;
    const struct carry_segment *own = &segments[count - 1];
    size_t B = grad.rows / at.chunk.count;
    struct tensor grad_q = scratch(model, grad.rows, kept->own[LATENT_Q].cols);
    CHECK(own->start <= at.chunk.start && at.chunk.start + at.chunk.count <= own->start + own->count);
    attend_backward(at, kept, carry, segments, count, grad_o, grad_q);
    turn_queries(model, at.batch, at.layer, grad_q, at.chunk, -1);
    projections_backward(
        (struct projections){.at = at,
                             .kept = kept,
                             .x = a->x,
                             .grad = grad,
                             .grad_q = grad_q,
                             .grad_carry = carry_rows(own->grad, (at.chunk.start - own->start) * B, grad.rows)});
    tensor_free(model->device, &grad_q);
}

// ---- what it costs

static struct carry_shape carry_shape(const struct model *model, size_t layer)
{
    const struct layer_kind *kind = kind_of(model, layer);
    enum dtype dtype = model->device->ops->dtype, grad = model->kv_gradient_dtype;
    return (struct carry_shape){{{kind->kv_rank, kind->rotary}, {dtype, dtype}},
                                {{kind->kv_rank, kind->rotary}, {grad, grad}}};
}

static struct pair_shape outputs(const struct model *model, size_t layer)
{
    const struct layer_kind *kind = kind_of(model, layer);
    enum dtype dtype = model->device->ops->dtype;
    return (struct pair_shape){{o_cols(kind), kind->heads}, {dtype, dtype_statistic(dtype)}};
}

static double kept_bytes(const struct model *model, size_t layer)
{
    const struct layer_kind *kind = kind_of(model, layer);
    size_t elements = q_cols(kind) + o_cols(kind) + kind->q_rank + kind->kv_rank;
    size_t statistics = kind->heads + (kind->q_rank ? 2 : 1);
    enum dtype dtype = model->device->ops->dtype;
    return (double)elements * dtype_bytes(dtype) + (double)statistics * dtype_bytes(dtype_statistic(dtype));
}

static double flops(const struct config *c, size_t layer, const struct batch *batch)
{
    const struct layer_kind *kind = config_kind(c, layer);
    return 2 * attention_pairs(batch, kind->window) * (double)(q_cols(kind) + o_cols(kind));
}

const struct mixer mixer_latent = {
    .kind = {.name = "latent", .parameters = parameters, .shape = shape, .kept_bytes = kept_bytes},
    .check = check,
    .carry = carry_shape,
    .outputs = outputs,
    .project = project,
    .project_block = project_block,
    .finish = finish,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};
