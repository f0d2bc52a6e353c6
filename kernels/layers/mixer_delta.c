// Gated DeltaNet (Yang et al. 2024, arXiv 2412.06464), as Qwen3.5 has it: q, k, v = silu(conv(h W_qkv^T)),
// o = the gated delta rule, and what is projected is rmsnorm(o) silu(h W_z^T), the norm over each head. Its carry
// is the rule's state and the convolution's last three rows. OLMo Hybrid has q, k and v of a projection each:
// delta_split.
#include "kernels/attention/all_to_all.h"
#include "kernels/layers/block_ends.h"
#include "kernels/layers/state_ranks.h"
#include "kernels/model/carry.h"

#define TAPS 4
#define TAIL (TAPS - 1)

// Q, K and V in place of QKV if they are split.
enum { QKV, K, V, Z, B, A, FILTER, A_LOG, DT_BIAS, NORM, OUT, Q = QKV };
// o is the first output. CONV, the convolution's result, and Y, what is projected, with `all` only. The last three,
// of the rank's pieces one after another, where ranks pass states: those before the pieces, the rows of qkv before
// them, and the pieces' transitions.
enum {
    KEPT_O,
    KEPT_QKV = MIXER_OUTPUTS,
    KEPT_Z,
    KEPT_A,
    KEPT_B,
    KEPT_RSTD,
    KEPT_CONV,
    KEPT_Y,
    KEPT_STATES,
    KEPT_TAILS,
    KEPT_TRANSITIONS
};
_Static_assert(KEPT_TRANSITIONS < KEPT_OWN, "a cell has room for all that is kept");

static const struct block_parameter parameters[] = {
    [QKV] = {"linear_attn.in_proj_qkv", LORA_IN_QKV},
    [K] = {""},
    [V] = {""},
    [Z] = {"linear_attn.in_proj_z", LORA_IN_Z},
    [B] = {"linear_attn.in_proj_b", LORA_IN_B},
    [A] = {"linear_attn.in_proj_a", LORA_IN_A},
    [FILTER] = {"linear_attn.conv1d", .form = FORM_FILTER},
    [A_LOG] = {"linear_attn.A_log", .form = FORM_VECTOR, .mean = -5, .deviation = 1},
    [DT_BIAS] = {"linear_attn.dt_bias", .form = FORM_VECTOR, .deviation = 1},
    [NORM] = {"linear_attn.norm", .form = FORM_GAIN},
    [OUT] = {"linear_attn.out_proj", LORA_OUT},
    {0}};
static const struct block_parameter split_parameters[] = {
    [Q] = {"linear_attn.q_proj", LORA_Q},
    [K] = {"linear_attn.k_proj", LORA_K},
    [V] = {"linear_attn.v_proj", LORA_V},
    [Z] = {"linear_attn.g_proj", LORA_G_PROJ},
    [B] = {"linear_attn.b_proj", LORA_B_PROJ},
    [A] = {"linear_attn.a_proj", LORA_A_PROJ},
    [FILTER] = {"linear_attn.conv1d", .form = FORM_FILTER},
    [A_LOG] = {"linear_attn.A_log", .form = FORM_VECTOR, .mean = -5, .deviation = 1},
    [DT_BIAS] = {"linear_attn.dt_bias", .form = FORM_VECTOR, .deviation = 1},
    [NORM] = {"linear_attn.o_norm", .form = FORM_GAIN},
    [OUT] = {"linear_attn.o_proj", LORA_O},
    {0}};

static const struct layer_kind *kind_of(const struct model *model, size_t layer)
{
    return config_kind(&model->config, layer);
}
// The kind as this rank mixes it: where ranks spread heads, with its own alone.
static struct layer_kind mixed_kind(const struct model *model, size_t layer)
{
    struct layer_kind kind = *kind_of(model, layer);
    if (heads_are_spread(model)) {
        kind.heads = heads_here(model, kind.heads);
        kind.kv_heads = heads_here(model, kind.kv_heads);
    }
    return kind;
}
static size_t value_cols(const struct layer_kind *kind)
{
    return kind->heads * kind->value_dim;
}
static size_t conv_cols(const struct layer_kind *kind)
{
    return 2 * kind->kv_heads * kind->head_dim + value_cols(kind);
}

static struct block_shape shape(const struct config *c, size_t layer, size_t parameter)
{
    const struct layer_kind *kind = config_kind(c, layer);
    bool split = kind->mixer == MIXER_DELTA_SPLIT;
    size_t keys = kind->kv_heads * kind->head_dim;
    const struct block_shape shapes[] = {
        [QKV] = {split ? keys : conv_cols(kind), c->width},
        [K] = {split ? keys : 0, c->width},
        [V] = {split ? value_cols(kind) : 0, c->width},
        [Z] = {value_cols(kind), c->width},
        [B] = {kind->heads, c->width},
        [A] = {kind->heads, c->width},
        [FILTER] = {conv_cols(kind), TAPS},
        [A_LOG] = {kind->heads},
        [DT_BIAS] = {kind->heads},
        [NORM] = {kind->value_dim},
        [OUT] = {c->width, value_cols(kind)},
    };
    return shapes[parameter];
}

static const struct block *block_of(struct cell_at at)
{
    return &at.model->layers[at.layer].mixer;
}
static const struct parameter *parameter_of(struct cell_at at, size_t parameter)
{
    return block_of(at)->parameters[parameter].weight;
}

// Rows of queries, keys and values.
static struct sections sections_of(const struct layer_kind *kind)
{
    return (struct sections){
        {{kind->kv_heads, kind->head_dim}, {kind->kv_heads, kind->head_dim}, {kind->heads, kind->value_dim}}};
}

static struct delta_shape shape_of(const struct layer_kind *kind, const struct batch *batch, struct span chunk)
{
    return (struct delta_shape){{chunk.count, chunk.start, batch->batch, batch_documents(batch, chunk)},
                                kind->kv_heads,
                                kind->heads,
                                kind->head_dim,
                                kind->value_dim};
}

// ---- the state

// A carry's two tensors as operations take them, [B heads, K V] and [3 B, w], and the bases.
#define STATE_TENSORS 4
struct state {
    union {
        struct {
            struct tensor s, tail, base_s, base_tail;
        };
        struct tensor t[STATE_TENSORS];
    };
};

static struct tensor as_rows(struct tensor t, size_t rows)
{
    return t.data && t.rows > 0 ? tensor_reshape(t, rows, tensor_count(t) / rows) : tensor_none();
}

static struct state state_of(struct cell_at at, struct carry carry)
{
    size_t heads = mixed_kind(at.model, at.layer).heads, batch = at.batch->batch;
    return (struct state){{{as_rows(carry.t[0], batch * heads), as_rows(carry.t[1], TAIL * batch),
                            as_rows(carry.base[0], batch * heads), as_rows(carry.base[1], TAIL * batch)}}};
}

// Scratch; of the tail alone if there is a state besides.
static struct state state_new(struct cell_at at, bool tail_alone)
{
    struct model *model = at.model;
    struct layer_kind kind = mixed_kind(model, at.layer);
    size_t batch = at.batch->batch;
    struct state state = {.tail = scratch(model, TAIL * batch, conv_cols(&kind))};
    if (!tail_alone) {
        state.s = tensor_new(model->device, batch * kind.heads, kind.head_dim * kind.value_dim,
                             dtype_statistic(model->device->ops->dtype), CATEGORY_WORKSPACE);
    }
    return state;
}

static void state_free(struct cell_at at, struct state *state)
{
    for (size_t i = 0; i < STATE_TENSORS; i++)
        tensor_free(at.model->device, &state->t[i]);
}

// The state left of the chunk; no tensors: there is none.
static struct state state_before(struct cell_at at, struct carry carry)
{
    return state_of(at, carry_before(carry, at.chunk.start * at.batch->batch));
}

// Copies that to `to`, as far as it has tensors; in front of the first chunk, where none is read, nothing, nor
// where one state moves on from chunk to chunk.
static void state_begin(struct cell_at at, struct carry carry, struct state to)
{
    struct state left = state_before(at, carry);
    if (left.s.data && to.s.data && left.s.data != to.s.data)
        op_copy(at.model->device, to.s, left.s);
    if (left.tail.data && left.tail.data != to.tail.data)
        op_copy(at.model->device, to.tail, left.tail);
}

// ---- heads over ranks

// Parameters that mix, and their gradients: the layer's, or of this rank's heads alone, the filter's copied.
struct weights {
    struct tensor filter, a_log, dt_bias, grad_filter, grad_a_log, grad_dt_bias;
};

// The filter's channels of this rank's heads, from those of all, or their gradients added to these.
static void copy_channels(struct cell_at at, struct tensor own, struct tensor all, bool add)
{
    struct sections sections = sections_of(kind_of(at.model, at.layer));
    for (size_t i = 0, first = 0, row = 0; i < SECTIONS_MAX; i++) {
        struct section section = sections.items[i];
        struct span heads = heads_own(at.model, section.heads);
        size_t rows = heads.count * section.width;
        struct tensor there = tensor_rows(all, first + heads.start * section.width, rows);
        struct tensor here = tensor_rows(own, row, rows);
        if (add)
            op_accumulate(at.model->device, there, here);
        else
            op_copy(at.model->device, here, there);
        first += section.heads * section.width;
        row += rows;
    }
}

static struct tensor vector_of(const struct model *model, struct tensor all)
{
    if (!all.data)
        return all;
    struct span own = heads_own(model, all.cols);
    return tensor_reshape(tensor_elements(all, own.start, own.count), 1, own.count);
}

static struct weights weights_open(struct cell_at at, bool backward)
{
    struct model *model = at.model;
    const struct parameter *filter = parameter_of(at, FILTER), *a_log = parameter_of(at, A_LOG),
                           *dt_bias = parameter_of(at, DT_BIAS);
    struct weights w = {filter->value, a_log->value, dt_bias->value, filter->grad, a_log->grad, dt_bias->grad};
    if (!heads_are_spread(model))
        return w;
    struct layer_kind kind = mixed_kind(model, at.layer);
    w.filter = tensor_new(model->device, conv_cols(&kind), TAPS, filter->value.dtype, CATEGORY_WORKSPACE);
    copy_channels(at, w.filter, filter->value, false);
    w.a_log = vector_of(model, w.a_log), w.dt_bias = vector_of(model, w.dt_bias);
    w.grad_a_log = vector_of(model, w.grad_a_log), w.grad_dt_bias = vector_of(model, w.grad_dt_bias);
    if (backward && filter->grad.data) {
        w.grad_filter = tensor_new(model->device, conv_cols(&kind), TAPS, filter->grad.dtype, CATEGORY_WORKSPACE);
        op_zero(model->device, w.grad_filter);
    }
    return w;
}

static void weights_close(struct cell_at at, struct weights *w, bool backward)
{
    struct device *device = at.model->device;
    if (!heads_are_spread(at.model))
        return;
    if (backward && w->grad_filter.data) {
        copy_channels(at, w->grad_filter, parameter_of(at, FILTER)->grad, true);
        tensor_free(device, &w->grad_filter);
    }
    tensor_free(device, &w->filter);
}

// The cell that mixes: where ranks spread heads, that of all tokens.
static struct cell_at mixed_at(struct cell_at at)
{
    if (heads_are_spread(at.model))
        at.chunk = (struct span){0, at.batch->pieces.context};
    return at;
}

// Replaces what is projected of the own tokens by this rank's heads of all tokens'.
static void spread(struct cell_at at, struct kept *kept, bool keeps_conv)
{
    struct model *model = at.model;
    const struct layer_kind *kind = kind_of(model, at.layer);
    static const size_t of_heads[] = {KEPT_B, KEPT_A};
    enum dtype dtype = model->device->ops->dtype;
    struct tensor own = rows_or_none(kept->own[KEPT_QKV], conv_cols(kind), dtype);
    kept->own[KEPT_QKV] = sections_spread(model, at.batch, own, sections_of(kind));
    tensor_free(model->device, &own);
    for (size_t i = 0; i < sizeof of_heads / sizeof *of_heads; i++) {
        struct tensor *gate = &kept->own[of_heads[i]];
        own = rows_or_none(*gate, kind->heads, dtype);
        *gate = heads_spread(model, at.batch, own, kind->heads);
        tensor_free(model->device, &own);
    }
    if (keeps_conv)
        kept->own[KEPT_CONV] = activation(model, kept->own[KEPT_QKV].rows, kept->own[KEPT_QKV].cols);
}

// The inverse for a gradient.
static struct tensor collect(struct cell_at at, struct tensor grad, struct sections sections, size_t rows,
                             size_t cols)
{
    struct tensor own = scratch(at.model, rows, cols);
    sections_collect(at.model, at.batch, own, sections, grad);
    return own;
}

// ---- forward

// A tensor for decays or betas of n rows.
static struct tensor gate_new(struct cell_at at, size_t n)
{
    struct device *device = at.model->device;
    return tensor_new(device, n, mixed_kind(at.model, at.layer).heads, dtype_statistic(device->ops->dtype),
                      CATEGORY_WORKSPACE);
}

static double beta_scale(struct cell_at at)
{
    double scale = kind_of(at.model, at.layer)->beta_scale;
    return scale > 0 ? scale : 1;
}

static void gates(struct cell_at at, const struct kept *kept, const struct weights *w, struct tensor decay,
                  struct tensor beta)
{
    op_delta_gates_forward(at.model->device, decay, beta, kept->own[KEPT_A], kept->own[KEPT_B], w->a_log,
                           w->dt_bias, beta_scale(at));
}

// How states pass tokens, [B heads, K K], and from the base.
struct transition {
    struct tensor t, base;
};

static struct transition gap_transition(struct cell_at at, const struct carry_gap *gap)
{
    size_t rows = at.batch->batch * kind_of(at.model, at.layer)->heads;
    return (struct transition){as_rows(gap->transition, rows), as_rows(gap->base_transition, rows)};
}

// Extends it by the chunk's tokens. begins: it has none yet.
static void transition_extend(struct cell_at at, struct transition transition, bool begins, struct tensor conv,
                              struct tensor decay, struct tensor beta)
{
    struct device *device = at.model->device;
    const struct layer_kind *kind = kind_of(at.model, at.layer);
    if (begins)
        op_delta_identity(device, transition.t, kind->head_dim);
    if (begins && transition.base.data)
        op_delta_identity(device, transition.base, kind->head_dim);
    op_delta_transition(device, shape_of(kind, at.batch, at.chunk), transition.t, transition.base, conv, decay,
                        beta);
}

// From what is projected to o (no tensor: to the state alone). state: left of the chunk, becomes that behind it.
// The transition of a gap is made where its chunks are gone through.
static void mix(struct cell_at at, const struct kept *kept, struct carry carry, struct state state, struct tensor o)
{
    struct device *device = at.model->device;
    struct tensor qkv = kept->own[KEPT_QKV], conv = kept->own[KEPT_CONV];
    struct state base = state_of(at, carry);
    struct layer_kind kind = mixed_kind(at.model, at.layer);
    struct delta_shape shape = shape_of(&kind, at.batch, at.chunk);
    struct weights w = weights_open(at, false);
    struct tensor decay = gate_new(at, qkv.rows), beta = gate_new(at, qkv.rows);
    size_t row = at.chunk.start * at.batch->batch;
    struct carry_gap gap = carry_gap_at(carry, row);
    if (!conv.data)
        conv = scratch(at.model, qkv.rows, qkv.cols);
    op_short_conv_forward(device, shape.run, conv, qkv, state.tail, base.base_tail, w.filter);
    gates(at, kept, &w, decay, beta);
    op_delta_rule_forward(device, shape, o, state.s, base.base_s, conv, decay, beta);
    if (gap.transition.data && row >= gap.start)
        transition_extend(at, gap_transition(at, &gap), row == gap.start, conv, decay, beta);
    if (conv.data != kept->own[KEPT_CONV].data)
        tensor_free(device, &conv);
    tensor_free(device, &beta);
    tensor_free(device, &decay);
    weights_close(at, &w, false);
}

// From a copy of the state left of the chunk.
static void mix_from_left(struct cell_at at, const struct kept *kept, struct carry carry, struct tensor o)
{
    struct state state = state_new(at, false);
    state_begin(at, carry, state);
    mix(at, kept, carry, state, o);
    state_free(at, &state);
}

// Scratch for queries, keys and values that have a projection each; else no tensors.
struct apart {
    struct tensor parts[V + 1];
};

static struct apart apart_new(struct cell_at at, size_t rows)
{
    const struct projection *w = block_of(at)->parameters;
    struct apart apart = {0};
    for (size_t i = Q; w[K].weight && i <= V; i++)
        apart.parts[i] = scratch(at.model, rows, w[i].weight->value.rows);
    return apart;
}

static void apart_free(struct cell_at at, struct apart *apart)
{
    for (size_t i = V + 1; i-- > Q;)
        tensor_free(at.model->device, &apart->parts[i]);
}

// Copies each to its columns of qkv, or from there.
static void apart_copy(struct cell_at at, const struct apart *apart, struct tensor qkv, bool from)
{
    for (size_t i = Q, first = 0; apart->parts[Q].data && i <= V; first += apart->parts[i++].cols) {
        struct tensor part = tensor_rows(apart->parts[i], 0, qkv.rows);
        if (from)
            op_copy_columns(at.model->device, part, 0, qkv, first, part.cols);
        else
            op_copy_columns(at.model->device, qkv, first, part, 0, part.cols);
    }
}

// Rows of what a parameter projects; no tensor: the kind has no such parameter.
static struct tensor projected_rows(const struct apart *apart, const struct tensor *joined, size_t parameter,
                                    struct blocks b)
{
    bool own = parameter <= V && apart->parts[parameter].data;
    struct tensor of = own ? apart->parts[parameter] : joined[parameter];
    return of.data ? tensor_rows(of, own ? 0 : b.row, b.count) : of;
}

static void projections_forward(struct cell_at at, struct tensor x, const struct kept *to)
{
    struct model *model = at.model;
    const struct block *block = block_of(at);
    const struct tensor joined[A + 1] = {
        [QKV] = to->own[KEPT_QKV], [Z] = to->own[KEPT_Z], [B] = to->own[KEPT_B], [A] = to->own[KEPT_A]};
    size_t n = x.rows, max = block_rows(model, at.layer, n);
    struct tensor h = block->norm && !to->h.data ? scratch(model, max, x.cols) : tensor_none();
    struct apart apart = apart_new(at, max);
    for (struct blocks b = blocks_of(model->device, n, max); blocks_next(&b);) {
        struct tensor in = block_input(model, block, to->h, to->rstd, h, x, b.row, b.count);
        for (size_t i = QKV; i <= A; i++) {
            struct tensor y = projected_rows(&apart, joined, i, b);
            if (y.data)
                projection_forward(model, &block->parameters[i], y, in, false);
        }
        apart_copy(at, &apart, tensor_rows(joined[QKV], b.row, b.count), false);
    }
    apart_free(at, &apart);
    tensor_free(model->device, &h);
}

// All that a cell projects, and what it keeps of the norm of x.
static void project_all(struct cell_at at, struct tensor x, struct activations *a, enum keep how)
{
    struct model *model = at.model;
    struct kept *kept = &a->mixer;
    const struct layer_kind *kind = kind_of(model, at.layer);
    kept->own[KEPT_QKV] = activation(model, x.rows, conv_cols(kind));
    kept->own[KEPT_Z] = activation(model, x.rows, value_cols(kind));
    kept->own[KEPT_B] = activation(model, x.rows, kind->heads);
    kept->own[KEPT_A] = activation(model, x.rows, kind->heads);
    block_keep_input(model, block_of(at), kept, x.rows, how);
    if (how == KEEP_ALL && a->output != OUTPUT_WRITTEN && !heads_are_spread(model)) // else o is not made again
        kept->own[KEPT_CONV] = activation(model, x.rows, conv_cols(kind));
    projections_forward(at, x, kept);
}

static void keep_output(struct cell_at at, struct activations *a, size_t n)
{
    struct tensor *o = &a->mixer.own[KEPT_O];
    if (a->output == OUTPUT_OWN)
        *o = activation(at.model, n, value_cols(kind_of(at.model, at.layer)));
}

// For the state alone.
static void project_state(struct cell_at at, struct tensor x, struct carry carry, struct state state)
{
    struct model *model = at.model;
    const struct layer_kind *kind = kind_of(model, at.layer);
    struct kept kept = {0};
    kept.own[KEPT_QKV] = scratch(model, x.rows, conv_cols(kind));
    kept.own[KEPT_B] = scratch(model, x.rows, kind->heads);
    kept.own[KEPT_A] = scratch(model, x.rows, kind->heads);
    projections_forward(at, x, &kept);
    mix(at, &kept, carry, state, tensor_none());
    tensor_free(model->device, &kept.own[KEPT_A]);
    tensor_free(model->device, &kept.own[KEPT_B]);
    tensor_free(model->device, &kept.own[KEPT_QKV]);
}

static void project(struct cell_at at, struct tensor x, struct carry carry, struct activations *a, enum keep how,
                    bool ahead)
{
    struct state right = state_of(at, carry_rows(carry, at.chunk.start * at.batch->batch, x.rows)), own = {0};
    bool ends = !right.s.data, makes = ahead && a->output != OUTPUT_WRITTEN;
    if (batch_is_shared(at.batch))
        return; // forward does all
    if (ahead)
        project_all(at, x, a, how);
    if (ends && !makes && !carry.base[0].data)
        return; // nothing reads the state behind the last chunk
    if (ends)
        right = own = state_new(at, false);
    state_begin(at, carry, right);
    if (makes)
        keep_output(at, a, x.rows);
    if (ahead)
        mix(at, &a->mixer, carry, right, makes ? a->mixer.own[KEPT_O] : tensor_none());
    else
        project_state(at, x, carry, right);
    state_free(at, &own);
}

// ---- states over ranks

static struct tensor copy_of(struct cell_at at, struct tensor t)
{
    struct device *device = at.model->device;
    struct tensor copy = t.data ? tensor_new(device, t.rows, t.cols, t.dtype, CATEGORY_WORKSPACE) : t;
    if (t.data)
        op_copy(device, copy, t);
    return copy;
}

// Whether ranks pass states from piece to piece.
static bool states_pass(const struct model *model)
{
    return model->ranks.sequence.size > 1 && model->ranks.exchange != EXCHANGE_ALL_TO_ALL;
}

// A rank's pieces, and what the rule reads of their tokens.
struct own_pieces {
    struct state_pieces of_ranks;
    struct token_run runs[PIECES];
    size_t count;
    struct tensor conv, decay, beta;
};

static struct tensor rows_of_run(struct cell_at at, struct token_run run, struct tensor t)
{
    return tensor_rows(t, run.first * at.batch->batch, run.count * at.batch->batch);
}

// Piece i's part of a tensor that has as many rows of each.
static struct tensor part_of(const struct own_pieces *own, struct tensor t, size_t i)
{
    return tensor_rows(t, i * (t.rows / own->count), t.rows / own->count);
}

static struct delta_shape shape_of_run(struct cell_at at, struct token_run run)
{
    return shape_of(kind_of(at.model, at.layer), at.batch, (struct span){run.start, run.count});
}

static struct tensor states_new(struct cell_at at, size_t pieces, size_t cols, enum category category)
{
    struct device *device = at.model->device;
    size_t rows = at.batch->batch * kind_of(at.model, at.layer)->heads;
    return tensor_new(device, pieces * rows, cols, dtype_statistic(device->ops->dtype), category);
}

// Rows before a run that are another document's than its first token, or no token's, are 0 in its tail, and so are
// their gradients.
static void cut_tail(struct cell_at at, struct token_run run, struct tensor tail)
{
    size_t B = at.batch->batch;
    for (size_t b = 0; b < B; b++) {
        size_t document = at.batch->starts ? (size_t)at.batch->starts[run.start * B + b] : 0;
        for (size_t i = 0; i < TAIL && document < run.start && run.start + i < document + TAIL; i++)
            op_zero(at.model->device, tensor_rows(tail, i * B + b, 1));
    }
}

// Keeps the rows of qkv before each piece, from those that all ranks' pieces end with.
static void keep_tails(struct cell_at at, const struct own_pieces *own, struct kept *kept)
{
    struct model *model = at.model;
    size_t B = at.batch->batch, cols = conv_cols(kind_of(model, at.layer));
    struct tensor all = scratch(model, own->of_ranks.count * TAIL * B, cols);
    op_zero(model->device, all); // shorter pieces send less
    if (own->count > 0)
        kept->own[KEPT_TAILS] = activation(model, own->count * TAIL * B, cols);
    for (size_t i = 0; i < own->count; i++) {
        size_t tokens = own->runs[i].count < TAIL ? own->runs[i].count : TAIL;
        struct tensor rows = rows_of_run(at, own->runs[i], kept->own[KEPT_QKV]);
        struct tensor to = state_piece_rows(&own->of_ranks, all, own->of_ranks.own[i]);
        op_copy(model->device, tensor_rows(to, (TAIL - tokens) * B, tokens * B),
                tensor_rows(rows, rows.rows - tokens * B, tokens * B));
    }
    state_pieces_gather(model, &own->of_ranks, all);
    for (size_t i = 0; i < own->count; i++) {
        struct tensor tail = part_of(own, kept->own[KEPT_TAILS], i);
        state_piece_tail(model, &own->of_ranks, own->of_ranks.own[i], all, tail, TAIL, B);
        cut_tail(at, own->runs[i], tail);
    }
    tensor_free(model->device, &all);
}

static struct own_pieces own_pieces_open(struct cell_at at)
{
    struct own_pieces own = {.of_ranks = state_pieces_open(at.model, at.batch)};
    own.count = pieces_runs(&at.batch->pieces, at.chunk, own.runs);
    CHECK(!at.batch->prefixes); // refused earlier (harness/step/ranks_possible.h)
    return own;
}

// Makes the rule's input. makes: the convolution, even if it is kept.
static void own_pieces_read(struct cell_at at, struct own_pieces *own, const struct kept *kept, bool makes)
{
    struct device *device = at.model->device;
    struct tensor qkv = kept->own[KEPT_QKV];
    struct weights w = weights_open(at, false);
    if (own->count == 0)
        return;
    makes |= !kept->own[KEPT_CONV].data;
    own->conv = kept->own[KEPT_CONV].data ? kept->own[KEPT_CONV] : scratch(at.model, qkv.rows, qkv.cols);
    for (size_t i = 0; makes && i < own->count; i++) {
        struct tensor tail = copy_of(at, part_of(own, kept->own[KEPT_TAILS], i));
        op_short_conv_forward(device, shape_of_run(at, own->runs[i]).run, rows_of_run(at, own->runs[i], own->conv),
                              rows_of_run(at, own->runs[i], qkv), tail, tensor_none(), w.filter);
        tensor_free(device, &tail);
    }
    own->decay = gate_new(at, qkv.rows), own->beta = gate_new(at, qkv.rows);
    gates(at, kept, &w, own->decay, own->beta);
}

static void own_pieces_close(struct cell_at at, struct own_pieces *own, const struct kept *kept)
{
    struct device *device = at.model->device;
    tensor_free(device, &own->beta);
    tensor_free(device, &own->decay);
    if (own->conv.data != kept->own[KEPT_CONV].data)
        tensor_free(device, &own->conv);
    state_pieces_close(&own->of_ranks);
}

// Whether piece p is one of the rank's, and which.
static bool is_own(const struct own_pieces *own, size_t p, size_t *i)
{
    for (*i = 0; *i < own->count; ++*i)
        if (own->of_ranks.own[*i] == p)
            return true;
    return false;
}

// The states at the left borders of the rank's own pieces, or with `back` their gradients at the right ones, from
// what all pieces make of 0 and how states pass them.
static void fold(struct cell_at at, const struct own_pieces *own, struct tensor transitions, struct tensor made,
                 bool back, struct tensor to)
{
    struct device *device = at.model->device;
    const struct layer_kind *kind = kind_of(at.model, at.layer);
    const struct state_pieces *pieces = &own->of_ranks;
    struct tensor state = states_new(at, 1, kind->head_dim * kind->value_dim, CATEGORY_WORKSPACE);
    op_zero(device, state);
    for (size_t n = 0, found = 0, i; found < own->count; n++) {
        size_t p = back ? pieces->count - 1 - n : n;
        if (is_own(own, p, &i)) {
            op_copy(device, part_of(own, to, i), state);
            found++;
        }
        if (found == own->count)
            break;
        if (n > 0)
            op_delta_carry(device, state, state_piece_rows(pieces, transitions, p), kind->head_dim,
                           back ? TRANSPOSE : NO_TRANSPOSE);
        op_accumulate(device, state, state_piece_rows(pieces, made, p));
    }
    tensor_free(device, &state);
}

// o (no tensor: it is there) of the rank's pieces, each from the state before it.
static void mix_pieces(struct cell_at at, struct kept *kept, struct tensor o)
{
    struct model *model = at.model;
    struct device *device = model->device;
    const struct layer_kind *kind = kind_of(model, at.layer);
    size_t keys = kind->head_dim, state_cols = keys * kind->value_dim;
    struct own_pieces own = own_pieces_open(at);
    keep_tails(at, &own, kept);
    own_pieces_read(at, &own, kept, true);
    struct tensor transitions = states_new(at, own.of_ranks.count, keys * keys, CATEGORY_WORKSPACE);
    struct tensor made = states_new(at, own.of_ranks.count, state_cols, CATEGORY_WORKSPACE);
    if (own.count > 0) {
        kept->own[KEPT_STATES] = states_new(at, own.count, state_cols, CATEGORY_ACTIVATIONS);
        kept->own[KEPT_TRANSITIONS] = states_new(at, own.count, keys * keys, CATEGORY_ACTIVATIONS);
    }
    for (size_t i = 0; i < own.count; i++) {
        struct delta_shape shape = shape_of_run(at, own.runs[i]);
        struct tensor conv = rows_of_run(at, own.runs[i], own.conv);
        struct tensor decay = rows_of_run(at, own.runs[i], own.decay),
                      beta = rows_of_run(at, own.runs[i], own.beta);
        struct tensor transition = state_piece_rows(&own.of_ranks, transitions, own.of_ranks.own[i]);
        struct tensor state = state_piece_rows(&own.of_ranks, made, own.of_ranks.own[i]);
        op_delta_identity(device, transition, keys);
        op_delta_transition(device, shape, transition, tensor_none(), conv, decay, beta);
        op_zero(device, state);
        op_delta_rule_forward(device, shape, tensor_none(), state, tensor_none(), conv, decay, beta);
        op_copy(device, part_of(&own, kept->own[KEPT_TRANSITIONS], i), transition);
    }
    state_pieces_gather(model, &own.of_ranks, transitions);
    state_pieces_gather(model, &own.of_ranks, made);
    fold(at, &own, transitions, made, false, kept->own[KEPT_STATES]);
    tensor_free(device, &made);
    tensor_free(device, &transitions);
    for (size_t i = 0; o.data && i < own.count; i++) {
        struct tensor state = copy_of(at, part_of(&own, kept->own[KEPT_STATES], i));
        op_delta_rule_forward(device, shape_of_run(at, own.runs[i]), rows_of_run(at, own.runs[i], o), state,
                              tensor_none(), rows_of_run(at, own.runs[i], own.conv),
                              rows_of_run(at, own.runs[i], own.decay), rows_of_run(at, own.runs[i], own.beta));
        tensor_free(device, &state);
    }
    own_pieces_close(at, &own, kept);
}

// y = rmsnorm(o) silu(z), by rows from `row` on; keeps rstd where KEPT_RSTD is a tensor.
static void gated_norm(struct model *model, size_t layer, const struct kept *kept, size_t row, struct tensor y)
{
    const struct layer_kind *kind = kind_of(model, layer);
    size_t rows = y.rows, norms = rows * kind->heads;
    struct tensor o = tensor_rows(kept->own[KEPT_O], row, rows);
    op_rmsnorm_forward(model->device, tensor_reshape(y, norms, kind->value_dim),
                       tensor_rows(kept->own[KEPT_RSTD], row * kind->heads, norms),
                       tensor_reshape(o, norms, kind->value_dim),
                       model->layers[layer].mixer.parameters[NORM].weight->value,
                       (struct norm_shape){.epsilon = kind->gate_epsilon});
    op_swiglu_forward(model->device, y, tensor_rows(kept->own[KEPT_Z], row, rows), y, ACTIVATION_SILU);
}

static struct tensor output(struct model *model, size_t layer, const struct kept *kept, size_t row,
                            struct tensor made)
{
    if (kept->own[KEPT_Y].data)
        return tensor_rows(kept->own[KEPT_Y], row, made.rows);
    gated_norm(model, layer, kept, row, made);
    return made;
}

// o of the own tokens, from all of them.
static void mix_spread(struct cell_at at, const struct kept *kept, struct carry carry, struct tensor o)
{
    struct model *model = at.model;
    size_t heads = kind_of(model, at.layer)->heads;
    struct layer_kind own = mixed_kind(model, at.layer);
    struct tensor share = scratch(model, kept->own[KEPT_QKV].rows, value_cols(&own));
    mix_from_left(mixed_at(at), kept, carry, share);
    heads_collect(model, at.batch, o, heads, share);
    tensor_free(model->device, &share);
}

static void forward(struct cell_at at, struct tensor x, struct carry carry, struct activations *a, enum keep how)
{
    struct model *model = at.model;
    const struct layer_kind *kind = kind_of(model, at.layer);
    struct kept *kept = &a->mixer;
    bool keeping = how != KEEP_NOTHING, ahead = kept->own[KEPT_QKV].data, spreads = heads_are_spread(model);
    if (!ahead && x.rows > 0)
        project_all(at, x, a, how);
    if (spreads)
        spread(at, kept, how == KEEP_ALL && a->output != OUTPUT_WRITTEN);
    if (!ahead && a->output != OUTPUT_WRITTEN && x.rows > 0)
        keep_output(at, a, x.rows);
    if (states_pass(model)) {
        mix_pieces(at, kept, a->output != OUTPUT_WRITTEN ? kept->own[KEPT_O] : tensor_none());
    } else if (!ahead && a->output != OUTPUT_WRITTEN) {
        struct tensor o = rows_or_none(kept->own[KEPT_O], value_cols(kind), model->device->ops->dtype);
        (spreads ? mix_spread : mix_from_left)(at, kept, carry, o);
    }
    if (keeping && x.rows > 0)
        kept->own[KEPT_RSTD] = statistic(model, x.rows * kind->heads, 1);
    if (how == KEEP_ALL && x.rows > 0) {
        kept->own[KEPT_Y] = activation(model, x.rows, value_cols(kind));
        gated_norm(model, at.layer, kept, 0, kept->own[KEPT_Y]);
    }
    static const size_t mixed[] = {KEPT_QKV, KEPT_A, KEPT_B, KEPT_STATES, KEPT_TAILS, KEPT_TRANSITIONS};
    for (size_t i = 0; !keeping && i < sizeof mixed / sizeof *mixed; i++)
        tensor_free(model->device, &kept->own[mixed[i]]);
}

// ---- backward

// grad: of what is projected, becomes that of o; z becomes its gradient.
static void gated_norm_backward(struct cell_at at, const struct kept *kept, struct tensor grad)
{
    struct model *model = at.model;
    struct device *device = model->device;
    const struct layer_kind *kind = kind_of(model, at.layer);
    const struct parameter *gain = parameter_of(at, NORM);
    const struct norm_shape shape = {.epsilon = kind->gate_epsilon};
    size_t max = block_rows(model, at.layer, grad.rows), heads = kind->heads, cols = kind->value_dim;
    struct tensor normed = scratch(model, max, grad.cols);
    for (struct blocks b = blocks_of(device, grad.rows, max); blocks_next(&b);) {
        size_t norms = b.count * heads;
        struct tensor o = tensor_reshape(tensor_rows(kept->own[KEPT_O], b.row, b.count), norms, cols);
        struct tensor up = tensor_rows(normed, 0, b.count), up_heads = tensor_reshape(up, norms, cols);
        struct tensor rows = tensor_rows(grad, b.row, b.count);
        op_rmsnorm_forward(device, up_heads, tensor_none(), o, gain->value, shape);
        op_swiglu_backward(device, tensor_rows(kept->own[KEPT_Z], b.row, b.count), up, rows, ACTIVATION_SILU);
        op_rmsnorm_backward(device, tensor_reshape(rows, norms, cols), false, gain->grad, up_heads, o, gain->value,
                            shape, tensor_rows(kept->own[KEPT_RSTD], b.row * heads, norms));
    }
    tensor_free(device, &normed);
}

// The gradients of the states behind the chunk's tokens become what of them passes to the states before it.
// transition: none where nothing passes. A sequence's state behind the chunk came from the one before it, or from
// the base if a document that continues the prompt began in the chunk; the base did where the prompt ends in it.
static void pass_states(struct cell_at at, struct transition transition, struct state grad)
{
    struct device *device = at.model->device;
    const struct layer_kind *kind = kind_of(at.model, at.layer);
    struct run_shape run = shape_of(kind, at.batch, at.chunk).run;
    bool alike = !grad.base_s.data;
    size_t heads = kind->heads, rows = alike ? grad.s.rows : heads;
    for (size_t row = 0; row < grad.s.rows; row += rows) {
        struct run_sequence s = run_sequence_of(&run, run.documents.starts, run.documents.prefixes, row / heads);
        bool ends = !alike && s.start < s.prefix && s.prefix <= s.start + s.tokens;
        bool from_base =
            s.prefix > 0 && run_document(&s, s.tokens - 1) > 0 && run_document(&s, s.tokens - 1) >= s.start;
        struct tensor of_state = tensor_rows(grad.s, row, rows), of_base = tensor_rows(grad.base_s, row, rows);
        if (transition.t.data)
            op_delta_carry(device, of_state, tensor_rows(transition.t, row, rows), kind->head_dim, TRANSPOSE);
        else
            op_zero(device, of_state);
        if (ends) {
            if (transition.t.data) {
                op_delta_carry(device, of_base, tensor_rows(transition.base, row, rows), kind->head_dim, TRANSPOSE);
                op_accumulate(device, of_state, of_base);
            }
            op_zero(device, of_base);
        } else if (from_base) {
            op_accumulate(device, of_base, of_state);
            op_zero(device, of_state);
        }
    }
}

// The same of tails: those of rows before the chunk pass it. A tail's own rows are the chunk's.
static void pass_tails(struct cell_at at, struct state grad)
{
    struct device *device = at.model->device;
    if (!grad.base_tail.data && at.chunk.count >= TAIL) {
        op_zero(device, grad.tail);
        return;
    }
    struct delta_shape shape = shape_of(kind_of(at.model, at.layer), at.batch, at.chunk);
    size_t n = at.chunk.count * at.batch->batch, tails = grad.base_tail.data ? 2 : 1;
    struct tensor zeros[] = {scratch(at.model, n, grad.tail.cols), scratch(at.model, n, grad.tail.cols),
                             scratch(at.model, grad.tail.rows, grad.tail.cols), tensor_none()};
    if (tails == 2)
        zeros[3] = scratch(at.model, grad.tail.rows, grad.tail.cols);
    for (size_t i = 0; i < 2 + tails; i++)
        op_zero(device, zeros[i]);
    op_short_conv_backward(device, shape.run, zeros[0], grad.tail, grad.base_tail, tensor_none(), zeros[0],
                           zeros[1], zeros[2], zeros[3], parameter_of(at, FILTER)->value);
    for (size_t i = 4; i-- > 0;)
        tensor_free(device, &zeros[i]);
}

// The chunks of a gap, from the last.
static void pass_gap(struct cell_at at, const struct carry_gap *gap, size_t chunk, struct state grad)
{
    size_t batch = at.batch->batch, start = gap->start / batch, count = gap->rows / batch;
    at.chunk = (struct span){start, count};
    pass_states(at, gap_transition(at, gap), grad);
    bool whole = !grad.base_tail.data && count >= TAIL;
    for (size_t end = start + count; end > start; end = at.chunk.start) {
        at.chunk = whole ? (struct span){start, count} : (struct span){end - chunk, chunk};
        pass_tails(at, grad);
    }
}

// The gradients from the right that pass the chunk to the left as they are, whatever the factor.
static struct state passing_of(struct cell_at at, enum state_passage passage, struct state grad, struct tensor conv,
                               struct tensor decay, struct tensor beta)
{
    struct device *device = at.model->device;
    size_t keys = kind_of(at.model, at.layer)->head_dim;
    bool bases = grad.base_s.data, carries = passage == STATE_CARRY;
    struct state passing = {0};
    if (carries || (bases && passage == STATE_CUT)) {
        struct transition own = {0};
        passing.s = copy_of(at, grad.s);
        passing.base_s = copy_of(at, grad.base_s);
        for (size_t i = 0; carries && i < (bases ? 2 : 1); i++)
            *(i ? &own.base : &own.t) =
                tensor_new(device, grad.s.rows, keys * keys, grad.s.dtype, CATEGORY_WORKSPACE);
        if (carries)
            transition_extend(at, own, true, conv, decay, beta);
        pass_states(at, own, passing);
        tensor_free(device, &own.base);
        tensor_free(device, &own.t);
    }
    if (bases || at.chunk.count < TAIL) {
        passing.tail = copy_of(at, grad.tail);
        passing.base_tail = copy_of(at, grad.base_tail);
        pass_tails(at, passing);
    }
    return passing;
}

// From the gradients of o and of the state to those of what was projected: a and b become theirs, and grad_qkv is
// qkv's. leftmost: no chunk reads what passes to the left.
static void mix_backward(struct cell_at at, const struct kept *kept, struct carry carry,
                         const struct carry_segment *segment, bool leftmost, struct tensor grad_o,
                         struct tensor grad_qkv)
{
    struct device *device = at.model->device;
    struct tensor qkv = kept->own[KEPT_QKV], conv = kept->own[KEPT_CONV];
    struct state left = state_before(at, carry), base = state_of(at, carry), grad = state_of(at, segment->grad);
    struct state passing = {0}, own = state_new(at, left.s.data);
    struct layer_kind kind = mixed_kind(at.model, at.layer);
    struct delta_shape shape = shape_of(&kind, at.batch, at.chunk);
    struct weights w = weights_open(at, true);
    struct tensor decay = gate_new(at, qkv.rows), beta = gate_new(at, qkv.rows), grad_decay, grad_beta;
    if (!conv.data) {
        conv = scratch(at.model, qkv.rows, qkv.cols);
        state_begin(at, carry, own);
        op_short_conv_forward(device, shape.run, conv, qkv, own.tail, base.base_tail, w.filter);
    }
    left = left.s.data ? left : own;
    gates(at, kept, &w, decay, beta);
    // The gradients times the factor enter the tokens. What the backward makes of them passes with it; the rest of
    // what passes without is added.
    bool multiplied = segment->factor != 0 && segment->factor != 1;
    if (multiplied && !leftmost)
        passing = passing_of(at, carry.draw->passage, grad, conv, decay, beta);
    for (size_t i = 0; multiplied && i < STATE_TENSORS; i++) {
        if (grad.t[i].data)
            op_scale(device, grad.t[i], segment->factor);
        if (passing.t[i].data)
            op_scale(device, passing.t[i], 1 - segment->factor);
    }
    grad_decay = gate_new(at, qkv.rows), grad_beta = gate_new(at, qkv.rows);
    op_delta_rule_backward(device, shape, grad_qkv, grad_decay, grad_beta, grad.s, grad.base_s, grad_o, left.s,
                           base.base_s, conv, decay, beta);
    if (conv.data != kept->own[KEPT_CONV].data)
        tensor_free(device, &conv);
    op_short_conv_backward(device, shape.run, grad_qkv, grad.tail, grad.base_tail, w.grad_filter, grad_qkv, qkv,
                           left.tail, base.base_tail, w.filter);
    op_delta_gates_backward(device, kept->own[KEPT_A], kept->own[KEPT_B], w.grad_a_log, w.grad_dt_bias, grad_decay,
                            grad_beta, kept->own[KEPT_A], kept->own[KEPT_B], w.a_log, w.dt_bias, beta_scale(at));
    for (size_t i = 0; i < STATE_TENSORS; i++)
        if (passing.t[i].data)
            op_accumulate(device, grad.t[i], passing.t[i]);
    tensor_free(device, &grad_beta);
    tensor_free(device, &grad_decay);
    state_free(at, &passing);
    tensor_free(device, &beta);
    tensor_free(device, &decay);
    weights_close(at, &w, true);
    state_free(at, &own);
}

// A piece's rule, from the gradients of its o and of the state behind it, which becomes that of the one before it.
static void run_backward(struct cell_at at, const struct own_pieces *own, size_t i, const struct kept *kept,
                         struct tensor grad_o, struct tensor grad_state, struct tensor grad_qkv,
                         struct tensor grad_decay, struct tensor grad_beta)
{
    struct token_run run = own->runs[i];
    op_delta_rule_backward(at.model->device, shape_of_run(at, run), rows_of_run(at, run, grad_qkv),
                           rows_of_run(at, run, grad_decay), rows_of_run(at, run, grad_beta), grad_state,
                           tensor_none(), rows_of_run(at, run, grad_o), part_of(own, kept->own[KEPT_STATES], i),
                           tensor_none(), rows_of_run(at, run, own->conv), rows_of_run(at, run, own->decay),
                           rows_of_run(at, run, own->beta));
}

// As mix_backward, for the rank's pieces. Each goes backward twice: with a state that has no gradient, for what all
// fold, and with that of the state behind it.
static void mix_pieces_backward(struct cell_at at, const struct kept *kept, struct tensor grad_o,
                                struct tensor grad_qkv)
{
    struct model *model = at.model;
    struct device *device = model->device;
    const struct layer_kind *kind = kind_of(model, at.layer);
    size_t keys = kind->head_dim, state_cols = keys * kind->value_dim, B = at.batch->batch;
    struct own_pieces own = own_pieces_open(at);
    own_pieces_read(at, &own, kept, false);
    const struct state_pieces *pieces = &own.of_ranks;
    struct tensor transitions = states_new(at, pieces->count, keys * keys, CATEGORY_WORKSPACE);
    struct tensor made = states_new(at, pieces->count, state_cols, CATEGORY_WORKSPACE);
    struct tensor behind = states_new(at, own.count, state_cols, CATEGORY_WORKSPACE);
    struct tensor grad_decay = gate_new(at, grad_qkv.rows), grad_beta = gate_new(at, grad_qkv.rows);
    for (size_t i = 0; i < own.count; i++) {
        struct tensor grad_state = state_piece_rows(pieces, made, pieces->own[i]);
        op_copy(device, state_piece_rows(pieces, transitions, pieces->own[i]),
                part_of(&own, kept->own[KEPT_TRANSITIONS], i));
        op_zero(device, grad_state);
        run_backward(at, &own, i, kept, grad_o, grad_state, grad_qkv, grad_decay, grad_beta);
    }
    state_pieces_gather(model, pieces, transitions);
    state_pieces_gather(model, pieces, made);
    fold(at, &own, transitions, made, true, behind);
    tensor_free(device, &transitions);
    struct tensor tails =
        tensor_new(device, pieces->count * TAIL * B, conv_cols(kind), behind.dtype, CATEGORY_WORKSPACE);
    op_zero(device, tails);
    for (size_t i = 0; i < own.count; i++) {
        struct token_run run = own.runs[i];
        struct tensor rows = rows_of_run(at, run, grad_qkv);
        run_backward(at, &own, i, kept, grad_o, part_of(&own, behind, i), grad_qkv, grad_decay, grad_beta);
        op_short_conv_backward(
            device, shape_of_run(at, run).run, rows, state_piece_rows(pieces, tails, pieces->own[i]), tensor_none(),
            parameter_of(at, FILTER)->grad, rows, rows_of_run(at, run, kept->own[KEPT_QKV]),
            part_of(&own, kept->own[KEPT_TAILS], i), tensor_none(), parameter_of(at, FILTER)->value);
        cut_tail(at, run, state_piece_rows(pieces, tails, pieces->own[i]));
    }
    state_pieces_gather(model, pieces, tails);
    for (size_t i = 0; i < own.count; i++)
        state_piece_add_tails(model, pieces, pieces->own[i], tails, rows_of_run(at, own.runs[i], grad_qkv), TAIL,
                              B);
    if (own.count > 0)
        op_delta_gates_backward(device, kept->own[KEPT_A], kept->own[KEPT_B], parameter_of(at, A_LOG)->grad,
                                parameter_of(at, DT_BIAS)->grad, grad_decay, grad_beta, kept->own[KEPT_A],
                                kept->own[KEPT_B], parameter_of(at, A_LOG)->value, parameter_of(at, DT_BIAS)->value,
                                beta_scale(at));
    tensor_free(device, &tails);
    tensor_free(device, &grad_beta);
    tensor_free(device, &grad_decay);
    tensor_free(device, &behind);
    tensor_free(device, &made);
    own_pieces_close(at, &own, kept);
}

// grads: of what was projected, by parameter; of QKV for all three.
static void projections_backward(struct cell_at at, const struct activations *a, const struct tensor *grads,
                                 struct tensor grad)
{
    struct model *model = at.model;
    const struct block *block = block_of(at);
    const struct projection *w = block->parameters;
    bool descends = model_descends(model, at.layer), normed = block->norm;
    bool needed = block_input_needed(block, descends);
    size_t max = block_rows(model, at.layer, grad.rows);
    struct tensor scratch_h = normed && !a->mixer.h.data ? scratch(model, max, grad.cols) : tensor_none();
    struct apart apart = apart_new(at, max);
    for (struct blocks b = blocks_of(model->device, grad.rows, max); blocks_next(&b);) {
        struct tensor rows = tensor_rows(grad, b.row, b.count), grad_u[A + 1] = {{0}};
        apart_copy(at, &apart, tensor_rows(grads[QKV], b.row, b.count), true);
        struct tensor h = block_input_again(model, block, &a->mixer, scratch_h, a->x, b.row, b.count);
        // Without a norm the gradient is added where that of x is summed; else it takes the place of h.
        struct tensor grad_h = normed ? h : rows;
        for (size_t i = QKV; i <= A; i++) {
            struct tensor of = projected_rows(&apart, grads, i, b);
            if (of.data)
                projection_backward_weights(model, &w[i], of, &grad_u[i], h);
        }
        for (size_t i = QKV; needed && i <= A; i++) {
            struct tensor of = projected_rows(&apart, grads, i, b);
            if (of.data)
                projection_backward_input(model, &w[i], grad_h, of, &grad_u[i], !normed || i > QKV);
        }
        for (size_t i = A + 1; i-- > QKV;)
            tensor_free(model->device, &grad_u[i]);
        block_input_backward(model, block, &a->mixer, descends, rows, h, a->x, b.row);
    }
    apart_free(at, &apart);
    tensor_free(model->device, &scratch_h);
}

static void backward(struct cell_at at, const struct activations *a, struct carry carry,
                     const struct carry_segment *segments, size_t count, struct tensor grad_output,
                     struct tensor grad)
{
    struct model *model = at.model;
    const struct kept *kept = &a->mixer;
    const struct carry_segment *own = &segments[count - 1];
    struct carry_gap gap = carry_gap_at(carry, at.chunk.start * at.batch->batch);
    if (gap.rows)
        pass_gap(at, &gap, carry.border / carry.batch, state_of(at, own->grad));
    const struct layer_kind *kind = kind_of(model, at.layer);
    bool spreads = heads_are_spread(model);
    struct tensor qkv = kept->own[KEPT_QKV], grad_qkv = scratch(model, qkv.rows, qkv.cols), grad_o = grad_output;
    struct tensor grad_b = kept->own[KEPT_B], grad_a = kept->own[KEPT_A];
    gated_norm_backward(at, kept, grad_output);
    if (spreads)
        grad_o = heads_spread(model, at.batch, rows_or_none(grad_output, value_cols(kind), qkv.dtype), kind->heads);
    if (states_pass(model))
        mix_pieces_backward(at, kept, grad_o, grad_qkv);
    else
        mix_backward(mixed_at(at), kept, carry, own, count == 1, grad_o, grad_qkv);
    if (spreads) {
        struct sections gate = {{{kind->heads, 1}}};
        tensor_free(model->device, &grad_o);
        struct tensor share = grad_qkv;
        grad_qkv = collect(at, share, sections_of(kind), grad.rows, conv_cols(kind));
        tensor_free(model->device, &share);
        grad_b = collect(at, grad_b, gate, grad.rows, kind->heads);
        grad_a = collect(at, grad_a, gate, grad.rows, kind->heads);
    }
    const struct tensor grads[A + 1] = {[QKV] = grad_qkv, [Z] = kept->own[KEPT_Z], [B] = grad_b, [A] = grad_a};
    projections_backward(at, a, grads, grad);
    if (spreads) {
        tensor_free(model->device, &grad_a);
        tensor_free(model->device, &grad_b);
    }
    tensor_free(model->device, &grad_qkv);
}

// ---- what it costs

static struct carry_shape carry(const struct model *model, size_t layer)
{
    struct layer_kind kind = mixed_kind(model, layer);
    size_t state = kind.heads * kind.head_dim * kind.value_dim, tail = TAIL * conv_cols(&kind);
    enum dtype dtype = model->device->ops->dtype, sums = dtype_statistic(dtype);
    size_t transition = kind.heads * kind.head_dim * kind.head_dim;
    return (struct carry_shape){
        .value = {{state, tail}, {sums, dtype}}, .grad = {{state, tail}, {sums, sums}}, .transition = transition};
}

static struct pair_shape outputs(const struct model *model, size_t layer)
{
    return (struct pair_shape){{value_cols(kind_of(model, layer))}, {model->device->ops->dtype}};
}

static double kept_bytes(const struct model *model, size_t layer)
{
    const struct layer_kind *kind = kind_of(model, layer);
    enum dtype dtype = model->device->ops->dtype;
    size_t elements = conv_cols(kind) + 2 * value_cols(kind) + 2 * kind->heads; // qkv; z and o; a and b
    return (double)elements * dtype_bytes(dtype) + (double)kind->heads * dtype_bytes(dtype_statistic(dtype));
}

static double flops(const struct config *c, size_t layer, const struct batch *batch)
{
    struct delta_shape shape = shape_of(config_kind(c, layer), batch, (struct span){0, batch->context});
    return delta_forward_flops(&shape) / (double)batch->batch;
}

static bool check(const struct config *c, const struct layer_kind *kind, struct status *status)
{
    (void)c;
    return config_check_size("key_dim of Gated DeltaNet", kind->head_dim, DELTA_DIM_MAX, status) &&
           config_check_size("value_dim of Gated DeltaNet", kind->value_dim, DELTA_DIM_MAX, status) &&
           config_check_number("beta_scale", kind->beta_scale, false, status) &&
           config_check_number("norm_epsilon of Gated DeltaNet", kind->gate_epsilon, true, status);
}

static bool shares(const struct config *c, size_t layer, enum exchange exchange, size_t ranks,
                   struct status *status)
{
    size_t key_heads = config_kind(c, layer)->kv_heads;
    return exchange != EXCHANGE_ALL_TO_ALL || key_heads % ranks == 0 ||
           status_set(status, STATUS_UNSUPPORTED,
                      "%zu ranks cannot share the %zu key heads of layer %zu, delta, evenly: use a number that "
                      "divides them, or parallel.exchange gather or ring",
                      ranks, key_heads, layer);
}

static bool sends(enum exchange exchange)
{
    (void)exchange;
    return true;
}

#define TABLE(name_, parameters_)                                                                                  \
    {                                                                                                              \
        .kind = {.name = name_, .parameters = parameters_, .shape = shape, .kept_bytes = kept_bytes},              \
        .check = check, .carry = carry, .at_borders = true, .outputs = outputs, .output = output,                  \
        .output_reads = 1 << KEPT_Z | 1 << KEPT_RSTD | 1 << KEPT_Y, .project = project, .forward = forward,        \
        .backward = backward, .shares = shares, .sends = sends, .flops = flops                                     \
    }
const struct mixer mixer_delta = TABLE("delta", parameters),
                   mixer_delta_split = TABLE("delta_split", split_parameters);
