// Latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values of all heads are projected from
// one latent per token, the norm of another projection; the last `rotary` numbers of each key are the token's,
// shared by all heads, and they alone are rotated. The carry is the latent and these numbers. Keys and values are
// never kept: each cell projects those of its prefix again, forward and backward, a block of keys at a time, and
// adds their gradients at once to those of the latents and of the projection.
#include "kernels/attention/all_to_all.h"
#include "kernels/attention/attend.h"
#include "kernels/attention/attention_shape.h"
#include "kernels/attention/ring.h"
#include "kernels/layers/block_ends.h"
#include "kernels/layers/rotation.h"
#include "kernels/model/carry.h"

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
    if (kind->window > 0 || kind->sinks || kind->gated || kind->cap > 0 || c->qk_norm || kind->v_norm ||
        kind->k_is_v || kind->rope == ROPE_PROPORTIONAL || c->unit_offset || c->centred)
        return status_set(status, STATUS_BAD_INPUT,
                          "latent attention takes no window, sinks, gate, cap, qk_norm, v_norm, k_is_v, "
                          "proportional RoPE, unit_offset or centred norms");
    if (kind->kv_heads != kind->heads) {
        return status_set(status, STATUS_BAD_INPUT,
                          "latent attention has keys of every head: kv_heads must be heads, found %zu and %zu",
                          kind->kv_heads, kind->heads);
    }
    return config_check_scores(c, kind, status) &&
           config_check_size("rotary of latent attention", kind->rotary, kind->head_dim - 1, status) &&
           config_check_size("value_dim", kind->value_dim, 512, status) &&
           config_check_size("kv_rank", kind->kv_rank, CONFIG_SIZE_MAX, status);
}

// ---- norms of latents, and rotation

static void latent_norm(struct model *model, size_t layer, size_t norm, struct tensor y, struct tensor rstd,
                        struct tensor x)
{
    const struct parameter *gain = block_of(model, layer)->parameters[norm].weight;
    op_rmsnorm_forward(model->device, y, rstd, x, gain->value, (struct norm_shape){0, EPSILON, false});
}

// grad: that of y above, becomes that of x.
static void latent_norm_backward(struct model *model, size_t layer, size_t norm, struct tensor grad,
                                 struct tensor x, struct tensor rstd)
{
    const struct parameter *gain = block_of(model, layer)->parameters[norm].weight;
    op_rmsnorm_backward(model->device, grad, false, gain->grad, grad, x, gain->value, (struct norm_shape){0}, rstd);
}

// x: [n, rotary] per head, of these positions: turned, and multiplied by gain.
static void turn(struct model *model, const struct batch *batch, size_t layer, struct tensor x, double gain,
                 struct span tokens, int direction)
{
    const struct layer_kind *kind = kind_of(model, layer);
    struct rope_shape shape = {kind->rotary, kind->rope == ROPE_INTERLEAVED, gain};
    if (kind->rope != ROPE_NONE)
        op_rope(model->device, x, rotation_frequencies(model, batch, layer), shape, tokens.start,
                x.rows / tokens.count, batch_documents(batch, tokens), direction);
}

// The same for all heads' shared numbers of some of the rank's tokens.
static void turn_keys(struct cell_at at, struct tensor x)
{
    struct token_run runs[PIECES];
    size_t count = pieces_runs(&at.batch->pieces, at.chunk, runs), B = x.rows / at.chunk.count;
    for (size_t i = 0; i < count; i++)
        turn(at.model, at.batch, at.layer, tensor_rows(x, (runs[i].first - at.chunk.start) * B, runs[i].count * B),
             1, (struct span){runs[i].start, runs[i].count}, +1);
}

static struct tensor by_head(const struct layer_kind *kind, struct tensor x)
{
    return tensor_reshape(x, x.rows * kind->heads, x.cols / kind->heads);
}

// q: [n, H D] of some of the rank's tokens: what scores take of queries beside their projection. Scores are
// products of queries and keys, so that queries alone are multiplied by the gains of both. Linear, and its
// transpose where direction is -1.
static void turn_queries(struct model *model, const struct batch *batch, size_t layer, struct tensor q,
                         struct span tokens, int direction)
{
    const struct layer_kind *kind = kind_of(model, layer);
    struct device *device = model->device;
    size_t own = own_dim(kind), B = q.rows / tokens.count, max = block_token_rows(model, layer, q.rows, B);
    double gain = rope_gain(kind);
    struct tensor part = kind->rope != ROPE_NONE ? scratch(model, max, kind->heads * kind->rotary) : tensor_none();
    struct token_run runs[PIECES];
    size_t count = pieces_runs(&batch->pieces, tokens, runs);
    for (size_t i = 0; part.data && i < count; i++) {
        struct tensor of_run = tensor_rows(q, (runs[i].first - tokens.start) * B, runs[i].count * B);
        for (struct blocks b = blocks_of(device, of_run.rows, max); blocks_next(&b);) {
            struct tensor of_heads = by_head(kind, tensor_rows(of_run, b.row, b.count)),
                          turned = tensor_rows(part, 0, b.count);
            op_copy_columns(device, by_head(kind, turned), 0, of_heads, own, kind->rotary);
            turn(model, batch, layer, turned, gain * gain, (struct span){runs[i].start + b.row / B, b.count / B},
                 direction);
            op_copy_columns(device, of_heads, own, by_head(kind, turned), 0, kind->rotary);
        }
    }
    tensor_free(device, &part);
    if (kind->query_scale > 0 && kind->query_scale != 1)
        op_scale(device, q, kind->query_scale);
    for (size_t i = 0; kind->position_scale.length > 0 && i < count; i++) {
        struct span run = {runs[i].start, runs[i].count};
        op_position_scale(device, tensor_rows(q, (runs[i].first - tokens.start) * B, run.count * B),
                          kind->position_scale, run.start, B, batch_documents(batch, run));
    }
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
    if (how != KEEP_NOTHING && !batch_is_shared(at.batch))
        keep_latents(at.model, at.layer, n, kept, &to);
    to.c = carry.t[0], to.k_rope = carry.t[1];
    projections_forward(at.model, at.layer, x, &to);
    turn_keys(at, carry.t[1]);
}

static void project_block(struct model *model, size_t layer, size_t row, struct tensor x, struct carry carry)
{
    struct carry own = carry_rows(carry, row, x.rows);
    projections_forward(model, layer, x, &(struct projected){.c = own.t[0], .k_rope = own.t[1]});
}

static void finish(struct cell_at at, struct carry carry)
{
    turn_keys(at, carry.t[1]);
}

// ---- attention, a block of keys after another

// Keys of adjacent positions, whose latents are rows of a carry, from `row` on.
struct key_range {
    size_t start, count, row;
};

// Queries of a cell, in runs of positions, which attend to one block of keys after another.
struct attention {
    struct cell_at at;
    struct layer_kind kind; // with the heads that attend
    struct projection kv_b; // of these
    struct parameter kv_b_weight;
    bool ring;
    // Blocks of keys have documents: they come from the right, so that each query's first block has its own key.
    bool by_documents;
    size_t batch, run_count; // sequences
    struct token_run runs[PIECES];
    bool seen[PIECES]; // the run has attended to keys
    struct tensor q, o, logsumexp;
    // Keys [first, first + count) of the range, at most `size`: [count B, H D], [count B, H value_dim], once a run
    // sees some of them.
    struct key_range range;
    size_t size, first, count;
    bool expanded;
    struct tensor k, v;
    // Forward, unless there is one block: o of a block; and of all, summed in the accumulator's dtype.
    struct tensor other, other_logsumexp, sum;
    struct tensor grad_o, grad_q, grad_k, grad_v; // backward; the latter two of the block
};

// KV_B's rows of some heads.
static void take_heads(struct attention *a, struct span heads)
{
    const struct projection *all = &block_of(a->at.model, a->at.layer)->parameters[KV_B];
    size_t dim = expanded_dim(&a->kind), row = heads.start * dim, rows = heads.count * dim;
    a->kind.heads = a->kind.kv_heads = heads.count;
    a->kv_b = *all;
    a->kv_b_weight = *all->weight;
    // A projected gradient may have other rows than the weight; then the rank has all heads.
    if (rows < all->weight->value.rows) {
        CHECK(!all->weight->projected);
        a->kv_b_weight.value = tensor_rows(all->weight->value, row, rows);
        a->kv_b_weight.grad = tensor_rows(all->weight->grad, row, rows);
    }
    a->kv_b.weight = &a->kv_b_weight;
    a->kv_b.lora_row += row;
}

// Keys of the longest range that the queries attend to.
static size_t longest_range(const struct attention *a)
{
    const struct pieces *own = &a->at.batch->pieces;
    size_t longest = 0;
    for (size_t i = 0; !a->ring && i < a->run_count; i++)
        longest = a->runs[i].start + a->runs[i].count;
    for (size_t rank = 0; a->ring && rank < own->ranks; rank++) {
        struct pieces of_rank = pieces_of(own->context, own->ranks, rank);
        for (size_t i = 0; i < PIECES; i++)
            longest = of_rank.items[i].count > longest ? of_rank.items[i].count : longest;
    }
    return longest;
}

// q: of the chunk's tokens and all heads; with `spread` of all tokens and this rank's. In a ring documents are
// known from the ranges' first keys on alone: with these each range is one block. backward: grad_q is not read.
static void attention_open(struct attention *a, struct cell_at at, struct tensor q, bool spread)
{
    struct model *model = at.model;
    *a = (struct attention){.at = at, .kind = *kind_of(model, at.layer), .q = q};
    a->ring = batch_is_shared(at.batch) && model->ranks.exchange == EXCHANGE_RING;
    a->batch = at.batch->batch;
    if (spread) {
        take_heads(a, heads_own(model, a->kind.heads));
        a->runs[0] = (struct token_run){.count = at.batch->pieces.context};
        a->run_count = 1;
    } else {
        take_heads(a, (struct span){0, a->kind.heads});
        a->batch = at.chunk.count ? q.rows / at.chunk.count : a->batch;
        a->run_count = pieces_runs(&at.batch->pieces, at.chunk, a->runs);
        for (size_t i = 0; i < a->run_count; i++)
            a->runs[i].first -= at.chunk.start;
    }
    size_t longest = longest_range(a), block = model->latent_block ? model->latent_block : LATENT_BLOCK;
    a->by_documents = at.batch->key_block > 0 && at.batch->key_block < longest;
    CHECK(!a->by_documents || at.batch->key_block == block);
    a->size = (at.batch->starts && !a->by_documents) || block > longest ? longest : block;
    a->k = scratch(model, a->size * a->batch, q_cols(&a->kind));
    a->v = scratch(model, a->size * a->batch, o_cols(&a->kind));
}
static void attention_close(struct attention *a)
{
    tensor_free(a->at.model->device, &a->v);
    tensor_free(a->at.model->device, &a->k);
}

static void range_begin(struct attention *a, struct key_range range)
{
    a->range = range;
    a->first = a->by_documents ? range.start + (range.count + a->size - 1) / a->size * a->size : range.start;
    a->count = 0;
}

// The next block, from the range's first key on, or from its last one; false: there is none.
static bool block_next(struct attention *a)
{
    size_t end = a->range.start + a->range.count;
    a->expanded = false;
    if (a->by_documents && a->first == a->range.start)
        return false;
    a->first = a->by_documents ? a->first - a->size : a->first + a->count;
    a->count = end - a->first < a->size ? end - a->first : a->size;
    return a->count > 0;
}

// Rows of the block's latents, or of what is as long.
static struct carry rows_of_block(const struct attention *a, struct carry latents)
{
    size_t row = a->range.row + (a->first - a->range.start) * a->batch;
    return carry_rows(latents, row, a->count * a->batch);
}

// Projects the block's keys and values from their latents, once.
static void expand(struct attention *a, struct carry of_range)
{
    struct model *model = a->at.model;
    struct device *device = model->device;
    const struct layer_kind *kind = &a->kind;
    struct carry latents = rows_of_block(a, of_range);
    size_t rows = a->count * a->batch, max = block_rows(model, a->at.layer, rows), own = own_dim(kind);
    struct tensor both = scratch(model, max, kind->heads * expanded_dim(kind));
    for (struct blocks i = blocks_of(device, rows, max); blocks_next(&i);) {
        struct tensor made = tensor_rows(both, 0, i.count), k = tensor_rows(a->k, i.row, i.count);
        struct tensor v = tensor_rows(a->v, i.row, i.count), shared = tensor_rows(latents.t[1], i.row, i.count);
        projection_forward(model, &a->kv_b, made, tensor_rows(latents.t[0], i.row, i.count), false);
        op_copy_columns(device, by_head(kind, k), 0, by_head(kind, made), 0, own);
        op_copy_heads(device, k, own, shared, kind->heads);
        op_copy_columns(device, by_head(kind, v), 0, by_head(kind, made), own, kind->value_dim);
    }
    tensor_free(device, &both);
    a->expanded = true;
}

// Some queries of a run that see some of the block's keys, and their attention.
struct seeing {
    size_t row, rows;
    struct attention_shape shape;
    bool first; // they have seen none before
};

// How many of the tokens from `start` on, up to `end`, see some of the block's keys: of its documents' tokens, the
// first ones, or all that continue a prompt in it.
static size_t seen_by_documents(const struct attention *a, size_t start, size_t end)
{
    const struct batch *batch = a->at.batch;
    size_t B = batch->batch, last = start;
    for (size_t b = 0; b < B; b++) {
        bool prompt = batch->prefixes && (size_t)batch->prefixes[b] > a->first;
        size_t t = prompt ? end : last;
        while (t < end && (size_t)batch->starts[t * B + b] < a->first + a->count)
            t++;
        last = t > last ? t : last;
    }
    return last - start;
}

// Parts of a run's queries: with documents the block's own, and those to its right; else all are one. False: no
// query of the part sees a key.
#define QUERY_PARTS 2
static bool run_sees(const struct attention *a, size_t i, size_t part, struct seeing *seeing)
{
    struct token_run run = a->runs[i];
    size_t end = run.start + run.count, behind = a->first + a->count;
    size_t from = a->by_documents && part > 0 ? behind : a->first, passed = from > run.start ? from - run.start : 0;
    if (from >= end || (part > 0 && !a->by_documents))
        return false;
    run.first += passed, run.start += passed, run.count -= passed;
    if (a->by_documents)
        run.count = part > 0       ? seen_by_documents(a, run.start, end)
                    : end > behind ? (behind > run.start ? behind - run.start : 0)
                                   : run.count;
    if (run.count == 0)
        return false;
    end = run.start + run.count;
    struct attention_shape shape =
        attention_shape_of(&a->at.model->config, a->at.batch, a->at.layer, run, a->batch);
    shape.heads = shape.kv_heads = a->kind.heads;
    shape.start -= a->first;
    shape.keys = end - a->first < a->count ? end - a->first : a->count;
    *seeing = (struct seeing){run.first * a->batch, run.count * a->batch, shape, .first = !a->seen[i]};
    if (a->by_documents) {
        seeing->shape.mask.documents =
            batch_documents_in_block(a->at.batch, a->first, (struct span){run.start, run.count});
        seeing->first = part == 0;
    }
    if (!a->ring)
        return true;
    seeing->shape.mask.documents = batch_documents_from(a->at.batch, a->range.start, run, false);
    bool sees = false;
    for (size_t b = 0; b < a->batch; b++) // the first queries see furthest back
        sees |= attention_seen_keys(&seeing->shape, 0, b).own < shape.keys;
    return sees;
}

static struct tensor rows_seeing(const struct seeing *seeing, struct tensor t)
{
    return tensor_rows(t, seeing->row, seeing->rows);
}
static struct tensor keys_seen(const struct attention *a, const struct seeing *seeing, struct tensor t)
{
    return tensor_rows(t, 0, seeing->shape.keys * a->batch);
}

// The queries' part over a range of keys. A query's first block is one that it sees.
static void attend_to(struct attention *a, struct key_range range, struct carry latents)
{
    struct device *device = a->at.model->device;
    struct seeing s;
    for (range_begin(a, range); block_next(a);) {
        for (size_t at = 0; at < a->run_count * QUERY_PARTS; at++) {
            size_t i = at / QUERY_PARTS;
            if (!run_sees(a, i, at % QUERY_PARTS, &s))
                continue;
            if (!a->expanded)
                expand(a, latents);
            bool first = s.first;
            struct tensor o = rows_seeing(&s, first ? a->o : a->other),
                          logsumexp = rows_seeing(&s, first ? a->logsumexp : a->other_logsumexp);
            op_attention_forward(device, s.shape, o, logsumexp, rows_seeing(&s, a->q), keys_seen(a, &s, a->k),
                                 keys_seen(a, &s, a->v));
            if (first && a->sum.data)
                op_copy(device, rows_seeing(&s, a->sum), o);
            else if (!first)
                op_attention_merge(device, rows_seeing(&s, a->sum.data ? a->sum : a->o),
                                   rows_seeing(&s, a->logsumexp), o, logsumexp);
            a->seen[i] = true;
        }
    }
}

// All keys to the left of the queries' end, and those up to it.
static struct key_range all_keys(const struct attention *a)
{
    const struct token_run *last = &a->runs[a->run_count - 1];
    return (struct key_range){.count = last->start + last->count};
}

// The rank's pieces of keys, the last one first; the second range may be empty.
static struct key_range range_of(const struct attention *a, const struct pieces *of, size_t piece)
{
    return (struct key_range){of->items[piece].start, of->items[piece].count,
                              piece > 0 ? of->items[0].count * a->batch : 0};
}

static void attend_at_stop(void *of, const struct pieces *pieces, struct carry block)
{
    for (size_t i = PIECES; i-- > 0;)
        attend_to(of, range_of(of, pieces, i), block);
}

static void attend_queries(struct attention *a, struct carry latents)
{
    struct model *model = a->at.model;
    struct device *device = model->device;
    bool several = a->ring || a->size < all_keys(a).count, apart = several && a->o.dtype != a->logsumexp.dtype;
    if (several) {
        a->other = scratch(model, a->o.rows, a->o.cols);
        a->other_logsumexp =
            tensor_new(device, a->logsumexp.rows, a->logsumexp.cols, a->logsumexp.dtype, CATEGORY_WORKSPACE);
    }
    if (apart)
        a->sum = tensor_new(device, a->o.rows, a->o.cols, a->logsumexp.dtype, CATEGORY_WORKSPACE);
    if (a->ring)
        ring_pass(model, a->at.batch, latents, attend_at_stop, a);
    else
        attend_to(a, all_keys(a), latents);
    if (apart && a->o.rows > 0)
        op_copy(device, a->o, a->sum);
    tensor_free(device, &a->sum);
    tensor_free(device, &a->other_logsumexp);
    tensor_free(device, &a->other);
}

static bool spreads(const struct cell_at *at)
{
    return batch_is_shared(at->batch) && at->model->ranks.exchange == EXCHANGE_ALL_TO_ALL;
}

// Rows of all heads of the own tokens, perhaps none.
static struct tensor own_q(const struct cell_at *at, struct tensor q)
{
    return rows_or_none(q, q_cols(kind_of(at->model, at->layer)), at->model->device->ops->dtype);
}
static struct tensor own_o(const struct cell_at *at, struct tensor o)
{
    return rows_or_none(o, o_cols(kind_of(at->model, at->layer)), at->model->device->ops->dtype);
}
static struct tensor own_logsumexp(const struct cell_at *at, struct tensor logsumexp)
{
    return rows_or_none(logsumexp, kind_of(at->model, at->layer)->heads,
                        dtype_statistic(at->model->device->ops->dtype));
}

static void latent_attend(struct cell_at at, const struct kept *kept, struct tensor q, struct carry carry)
{
    struct model *model = at.model;
    struct device *device = model->device;
    size_t heads = kind_of(model, at.layer)->heads;
    bool spread = spreads(&at);
    struct attention a;
    q = own_q(&at, q);
    attention_open(&a, at, spread ? heads_spread(model, at.batch, q, heads) : q, spread);
    a.o = own_o(&at, kept->own[ATTENTION_O]);
    a.logsumexp = own_logsumexp(&at, kept->own[ATTENTION_LOGSUMEXP]);
    if (spread) {
        a.o = scratch(model, a.q.rows, o_cols(&a.kind));
        a.logsumexp = tensor_new(device, a.q.rows, a.kind.heads, a.logsumexp.dtype, CATEGORY_WORKSPACE);
    }
    if (a.run_count > 0 || a.ring)
        attend_queries(&a, carry);
    attention_close(&a);
    if (spread) {
        tensor_free(device, &a.q);
        heads_collect(model, at.batch, own_o(&at, kept->own[ATTENTION_O]), heads, a.o);
        heads_collect(model, at.batch, own_logsumexp(&at, kept->own[ATTENTION_LOGSUMEXP]), heads, a.logsumexp);
        tensor_free(device, &a.logsumexp);
        tensor_free(device, &a.o);
    }
}

static void forward(struct cell_at at, struct tensor x, struct carry carry, struct activations *a, enum keep how)
{
    struct model *model = at.model;
    const struct layer_kind *kind = kind_of(model, at.layer);
    struct kept *kept = &a->mixer;
    size_t n = x.rows;
    if (n > 0 && !kept->own[LATENT_Q].data) {
        struct projected to = projected_queries(model, at.layer, n, kept, how);
        if (how != KEEP_NOTHING && !kept->own[LATENT_KV_A].data && !batch_is_shared(at.batch))
            keep_latents(model, at.layer, n, kept, &to);
        projections_forward(model, at.layer, x, &to);
    }
    if (n > 0)
        turn_queries(model, at.batch, at.layer, kept->own[LATENT_Q], at.chunk, +1);
    if (n > 0 && a->output == OUTPUT_OWN) {
        kept->own[ATTENTION_O] = activation(model, n, o_cols(kind));
        kept->own[ATTENTION_LOGSUMEXP] = statistic(model, n, kind->heads);
    }
    if (a->output != OUTPUT_WRITTEN)
        latent_attend(at, kept, kept->own[LATENT_Q], carry);
    if (how == KEEP_NOTHING)
        tensor_free(model->device, &kept->own[LATENT_Q]);
}

// ---- from the gradient of o to those of queries, latents and x

// Gradients of keys and values of a part of the block, grad_k and grad_v, go to those of the latents, in `to`, and
// of the projection, where they are multiplied by the factor of their tokens.
static void fold(const struct attention *a, struct tensor grad_k, struct tensor grad_v, struct carry latents,
                 struct carry to, double factor)
{
    struct model *model = a->at.model;
    struct device *device = model->device;
    const struct layer_kind *kind = &a->kind;
    size_t max = block_rows(model, a->at.layer, grad_k.rows), own = own_dim(kind);
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
        projection_backward_input(model, &a->kv_b, tensor_rows(to.t[0], i.row, i.count), both, &grad_u, true);
        if (factor != 1) {
            op_scale(device, both, factor);
            if (grad_u.data)
                op_scale(device, grad_u, factor);
        }
        projection_backward_weights(model, &a->kv_b, both, &grad_u, tensor_rows(latents.t[0], i.row, i.count));
        tensor_free(device, &grad_u);
    }
    tensor_free(device, &narrow);
    tensor_free(device, &wide);
}

// The part of a segment that is in the block, counted from the block's first key and before its key `end`; its
// gradients are rows of those of the block.
static struct key_segment within(const struct attention *a, const struct carry_segment *s, size_t end)
{
    size_t first = s->start > a->first ? s->start : a->first, last = s->start + s->count;
    last = last < a->first + end ? last : a->first + end;
    size_t start = first < last ? first - a->first : 0, count = first < last ? last - first : 0;
    return (struct key_segment){.start = start,
                                .count = count,
                                .grad_k = tensor_rows(a->grad_k, start * a->batch, count * a->batch),
                                .grad_v = tensor_rows(a->grad_v, start * a->batch, count * a->batch)};
}

// Writes the segments' parts, those that are not empty; returns their number.
static size_t parts_within(const struct attention *a, const struct carry_segment *segments, size_t count,
                           size_t end, struct key_segment *parts)
{
    size_t seen = 0;
    for (size_t i = 0; i < count; i++) {
        parts[seen] = within(a, &segments[i], end);
        seen += parts[seen].count > 0;
    }
    return seen;
}

// A key of another chunk's gives KV_B a gradient times that chunk's factor, because the cell gives it here what the
// chunk's own cells would have given its latent.
static void fold_block(const struct attention *a, struct carry latents, const struct carry_segment *segments,
                       size_t count)
{
    size_t B = a->batch;
    struct carry of_block = rows_of_block(a, latents);
    for (size_t i = 0; i < count; i++) {
        struct key_segment part = within(a, &segments[i], a->count);
        double factor = i + 1 < count && segments[i].factor != 0 ? segments[i].factor : 1;
        if (part.count > 0)
            fold(a, part.grad_k, part.grad_v, carry_rows(of_block, part.start * B, part.count * B),
                 carry_rows(segments[i].grad, (a->first + part.start - segments[i].start) * B, part.count * B),
                 factor);
    }
}

// Over a range of keys, to segments of gradients.
static void attend_to_backward(struct attention *a, struct key_range range, struct carry latents,
                               const struct carry_segment *segments, size_t count)
{
    struct device *device = a->at.model->device;
    struct key_segment *parts = calloc(count, sizeof *parts);
    struct seeing s;
    CHECK(parts);
    for (range_begin(a, range); block_next(a);) {
        for (size_t at = 0; at < a->run_count * QUERY_PARTS; at++) {
            size_t i = at / QUERY_PARTS;
            if (!run_sees(a, i, at % QUERY_PARTS, &s))
                continue;
            if (!a->expanded) {
                expand(a, latents);
                size_t written = parts_within(a, segments, count, a->count, parts);
                for (size_t j = 0; j < written; j++) {
                    op_zero(device, parts[j].grad_k);
                    op_zero(device, parts[j].grad_v);
                }
            }
            size_t seen = parts_within(a, segments, count, s.shape.keys, parts);
            op_attention_backward(device, s.shape, rows_seeing(&s, a->grad_q), !s.first, parts, seen,
                                  rows_seeing(&s, a->grad_o), rows_seeing(&s, a->o), rows_seeing(&s, a->logsumexp),
                                  rows_seeing(&s, a->q), keys_seen(a, &s, a->k), keys_seen(a, &s, a->v));
            a->seen[i] = true;
        }
        if (a->expanded)
            fold_block(a, latents, segments, count);
    }
    free(parts);
}

static void attend_at_stop_backward(void *of, const struct pieces *pieces, struct carry block,
                                    struct carry grad_block)
{
    struct attention *a = of;
    for (size_t i = PIECES; i-- > 0;) {
        struct key_range range = range_of(a, pieces, i);
        struct carry_segment segment = {range.start, range.count,
                                        carry_rows(grad_block, range.row, range.count * a->batch), 0};
        attend_to_backward(a, range, block, &segment, 1);
    }
}

// grad_q: not read.
static void latent_attend_backward(struct cell_at at, const struct kept *kept, struct carry carry,
                                   const struct carry_segment *segments, size_t count, struct tensor grad_o,
                                   struct tensor grad_q)
{
    struct model *model = at.model;
    struct device *device = model->device;
    enum dtype sums = dtype_statistic(device->ops->dtype);
    size_t heads = kind_of(model, at.layer)->heads;
    bool spread = spreads(&at);
    struct tensor q = own_q(&at, kept->own[LATENT_Q]);
    struct attention a;
    attention_open(&a, at, spread ? heads_spread(model, at.batch, q, heads) : q, spread);
    a.o = own_o(&at, kept->own[ATTENTION_O]), a.logsumexp = own_logsumexp(&at, kept->own[ATTENTION_LOGSUMEXP]);
    a.grad_o = grad_o, a.grad_q = grad_q;
    if (spread) {
        a.o = heads_spread(model, at.batch, a.o, heads);
        a.logsumexp = heads_spread(model, at.batch, a.logsumexp, heads);
        a.grad_o = heads_spread(model, at.batch, own_o(&at, grad_o), heads);
        a.grad_q = scratch(model, a.q.rows, a.q.cols);
    }
    a.grad_k = tensor_new(device, a.k.rows, a.k.cols, sums, CATEGORY_WORKSPACE);
    a.grad_v = tensor_new(device, a.v.rows, a.v.cols, sums, CATEGORY_WORKSPACE);
    if (a.ring)
        ring_pass_backward(model, at.batch, carry, segments->grad, attend_at_stop_backward, &a);
    else if (a.run_count > 0)
        attend_to_backward(&a, all_keys(&a), carry, segments, count);
    tensor_free(device, &a.grad_v);
    tensor_free(device, &a.grad_k);
    attention_close(&a);
    if (spread) {
        heads_collect(model, at.batch, own_q(&at, grad_q), heads, a.grad_q);
        tensor_free(device, &a.grad_q);
        tensor_free(device, &a.grad_o);
        tensor_free(device, &a.logsumexp);
        tensor_free(device, &a.o);
        tensor_free(device, &a.q);
    }
}

// Operands of the blocks of rows.
struct projections {
    struct cell_at at;
    const struct kept *kept;
    struct tensor x, grad;
    struct tensor grad_q;    // no tensor: of latents alone
    struct carry grad_carry; // of the chunk's own tokens; no tensors: of queries alone
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
    bool latents = p->grad_carry.t[0].data, queries = p->grad_q.data;
    struct tensor grad_u_q = {0}, grad_u_kv = {0};
    struct tensor grad_both = latents ? latents_backward(p, row, rows, tokens) : tensor_none();
    struct tensor grad_first = queries ? queries_backward(p, row, h, &grad_u_q) : tensor_none();
    if (latents)
        projection_backward_weights(model, &w[KV_A], grad_both, &grad_u_kv, h);
    // Without a norm the gradient is added where that of x is summed; else it takes the place of h.
    struct tensor grad = tensor_rows(p->grad, row, rows), grad_h = normed ? h : grad;
    if (block_input_needed(block, descends)) {
        if (queries)
            projection_backward_input(model, first, grad_h, grad_first, &grad_u_q, !normed);
        if (latents)
            projection_backward_input(model, &w[KV_A], grad_h, grad_both, &grad_u_kv, !normed || queries);
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
    bool latents = p.grad_carry.t[0].data, narrow = latents && p.grad_carry.t[0].dtype != p.grad.dtype;
    if (!p.kept->h.data && block_of(model, p.at.layer)->norm)
        p.h = scratch(model, max, model->config.width);
    if (kind->q_rank && p.grad_q.data) {
        p.q_a = scratch(model, max, kind->q_rank);
        p.grad_q_a = scratch(model, max, kind->q_rank);
    }
    if (narrow) {
        p.grad_c = scratch(model, max, kind->kv_rank);
        p.grad_k_rope = scratch(model, max, kind->rotary);
    }
    if (latents)
        p.both = scratch(model, max, kind->kv_rank + kind->rotary);
    struct token_run runs[PIECES];
    size_t count = pieces_runs(&p.at.batch->pieces, p.at.chunk, runs);
    for (size_t i = 0; i < count; i++) {
        size_t row = (runs[i].first - p.at.chunk.start) * B;
        for (struct blocks b = blocks_of(device, runs[i].count * B, max); blocks_next(&b);)
            block_backward(&p, row + b.row, b.count, (struct span){runs[i].start + b.row / B, b.count / B});
    }
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
    struct tensor grad_q = scratch(model, grad.rows, q_cols(kind_of(model, at.layer)));
    latent_attend_backward(at, kept, carry, segments, count, grad_o, grad_q);
    struct projections p = {.at = at, .kept = kept, .x = a->x, .grad = grad, .grad_q = grad_q};
    if (grad.rows > 0) {
        turn_queries(model, at.batch, at.layer, grad_q, at.chunk, -1);
        if (!batch_is_shared(at.batch)) {
            size_t B = grad.rows / at.chunk.count;
            CHECK(own->start <= at.chunk.start && at.chunk.start + at.chunk.count <= own->start + own->count);
            p.grad_carry = carry_rows(own->grad, (at.chunk.start - own->start) * B, grad.rows);
        }
        projections_backward(p);
    }
    tensor_free(model->device, &grad_q);
}

// Recomputes from x the other inputs of the backward of latents.
static void project_backward(struct cell_at at, struct tensor x, struct carry grad_carry, struct tensor grad)
{
    struct model *model = at.model;
    struct activations a = {0};
    struct projected to = {0};
    if (block_of(model, at.layer)->norm)
        to.rstd = a.mixer.rstd = norm_statistics(model, x.rows);
    keep_latents(model, at.layer, x.rows, &a.mixer, &to);
    projections_forward(model, at.layer, x, &to);
    projections_backward(
        (struct projections){.at = at, .kept = &a.mixer, .x = x, .grad = grad, .grad_carry = grad_carry});
    activations_free(model->device, &a);
}

// ---- what it costs

static struct carry_shape carry_shape(const struct model *model, size_t layer)
{
    const struct layer_kind *kind = kind_of(model, layer);
    enum dtype dtype = model->device->ops->dtype, grad = model->kv_gradient_dtype;
    return (struct carry_shape){.value = {{kind->kv_rank, kind->rotary}, {dtype, dtype}},
                                .grad = {{kind->kv_rank, kind->rotary}, {grad, grad}}};
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
    return 2 * attention_pairs(batch, kind) * (double)(q_cols(kind) + o_cols(kind));
}

static bool shares(const struct config *c, size_t layer, enum exchange exchange, size_t ranks,
                   struct status *status)
{
    size_t heads = config_kind(c, layer)->heads;
    return exchange != EXCHANGE_ALL_TO_ALL || heads % ranks == 0 ||
           status_set(
               status, STATUS_UNSUPPORTED,
               "%zu ranks cannot share the %zu heads of layer %zu, latent, evenly: use a number that divides "
               "them, or another parallel.exchange",
               ranks, heads, layer);
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
    .shares = shares,
    .sends = attend_sends,
    .project_backward = project_backward,
    .flops = flops,
};
