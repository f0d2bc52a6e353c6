// Gated DeltaNet (Yang et al. 2024, arXiv 2412.06464), as Qwen3.5 has it: q, k, v = silu(conv(h W_qkv^T)),
// o = the gated delta rule, and what is projected is rmsnorm(o) silu(h W_z^T), the norm over each head. Its carry
// is the rule's state and the convolution's last three rows.
#include "kernels/layers/block_ends.h"
#include "kernels/model/carry.h"

#define TAPS 4
#define TAIL (TAPS - 1)

enum { QKV, Z, B, A, FILTER, A_LOG, DT_BIAS, NORM, OUT };
// o is the first output. CONV, the convolution's result, and Y, what is projected, with `all` only.
enum { KEPT_O, KEPT_QKV = MIXER_OUTPUTS, KEPT_Z, KEPT_A, KEPT_B, KEPT_RSTD, KEPT_CONV, KEPT_Y };
_Static_assert(KEPT_Y < KEPT_OWN, "a cell has room for all that is kept");

static const struct block_parameter parameters[] = {
    [QKV] = {"linear_attn.in_proj_qkv", LORA_IN_QKV},
    [Z] = {"linear_attn.in_proj_z", LORA_IN_Z},
    [B] = {"linear_attn.in_proj_b", LORA_IN_B},
    [A] = {"linear_attn.in_proj_a", LORA_IN_A},
    [FILTER] = {"linear_attn.conv1d", .form = FORM_FILTER},
    [A_LOG] = {"linear_attn.A_log", .form = FORM_VECTOR, .mean = -5, .deviation = 1},
    [DT_BIAS] = {"linear_attn.dt_bias", .form = FORM_VECTOR, .deviation = 1},
    [NORM] = {"linear_attn.norm", .form = FORM_GAIN},
    [OUT] = {"linear_attn.out_proj", LORA_OUT},
    {0}};

static const struct layer_kind *kind_of(const struct model *model, size_t layer)
{
    return config_kind(&model->config, layer);
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
    const struct block_shape shapes[] = {
        [QKV] = {conv_cols(kind), c->width},
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
struct state {
    struct tensor s, tail, base_s, base_tail;
};

static struct tensor as_rows(struct tensor t, size_t rows)
{
    return t.data && t.rows > 0 ? tensor_reshape(t, rows, tensor_count(t) / rows) : tensor_none();
}

static struct state state_of(struct cell_at at, struct carry carry)
{
    size_t heads = kind_of(at.model, at.layer)->heads, batch = at.batch->batch;
    return (struct state){as_rows(carry.t[0], batch * heads), as_rows(carry.t[1], TAIL * batch),
                          as_rows(carry.base[0], batch * heads), as_rows(carry.base[1], TAIL * batch)};
}

// Scratch; of the tail alone if there is a state besides.
static struct state state_new(struct cell_at at, bool tail_alone)
{
    struct model *model = at.model;
    const struct layer_kind *kind = kind_of(model, at.layer);
    size_t batch = at.batch->batch;
    struct state state = {.tail = scratch(model, TAIL * batch, conv_cols(kind))};
    if (!tail_alone) {
        state.s = tensor_new(model->device, batch * kind->heads, kind->head_dim * kind->value_dim,
                             dtype_statistic(model->device->ops->dtype), CATEGORY_WORKSPACE);
    }
    return state;
}

static void state_free(struct cell_at at, struct state *state)
{
    tensor_free(at.model->device, &state->s);
    tensor_free(at.model->device, &state->tail);
}

// The state left of the chunk; no tensors: there is none.
static struct state state_before(struct cell_at at, struct carry carry)
{
    return state_of(at, carry_before(carry, at.chunk.start * at.batch->batch));
}

// Copies that to `to`, as far as it has tensors; in front of the first chunk, where none is read, nothing.
static void state_begin(struct cell_at at, struct carry carry, struct state to)
{
    struct state left = state_before(at, carry);
    if (left.s.data && to.s.data)
        op_copy(at.model->device, to.s, left.s);
    if (left.tail.data)
        op_copy(at.model->device, to.tail, left.tail);
}

// ---- forward

// A tensor for decays or betas of n rows.
static struct tensor gate_new(struct cell_at at, size_t n)
{
    struct device *device = at.model->device;
    return tensor_new(device, n, kind_of(at.model, at.layer)->heads, dtype_statistic(device->ops->dtype),
                      CATEGORY_WORKSPACE);
}

static double beta_scale(struct cell_at at)
{
    double scale = kind_of(at.model, at.layer)->beta_scale;
    return scale > 0 ? scale : 1;
}

static void gates(struct cell_at at, const struct kept *kept, struct tensor decay, struct tensor beta)
{
    op_delta_gates_forward(at.model->device, decay, beta, kept->own[KEPT_A], kept->own[KEPT_B],
                           parameter_of(at, A_LOG)->value, parameter_of(at, DT_BIAS)->value, beta_scale(at));
}

// From what is projected to o (no tensor: to the state alone). state: left of the chunk, becomes that behind it.
static void mix(struct cell_at at, const struct kept *kept, struct carry carry, struct state state, struct tensor o)
{
    struct device *device = at.model->device;
    struct tensor qkv = kept->own[KEPT_QKV], conv = kept->own[KEPT_CONV];
    struct state base = state_of(at, carry);
    struct delta_shape shape = shape_of(kind_of(at.model, at.layer), at.batch, at.chunk);
    struct tensor decay = gate_new(at, qkv.rows), beta = gate_new(at, qkv.rows);
    if (!conv.data)
        conv = scratch(at.model, qkv.rows, qkv.cols);
    op_short_conv_forward(device, shape.run, conv, qkv, state.tail, base.base_tail,
                          parameter_of(at, FILTER)->value);
    gates(at, kept, decay, beta);
    op_delta_rule_forward(device, shape, o, state.s, base.base_s, conv, decay, beta);
    if (conv.data != kept->own[KEPT_CONV].data)
        tensor_free(device, &conv);
    tensor_free(device, &beta);
    tensor_free(device, &decay);
}

// From a copy of the state left of the chunk.
static void mix_from_left(struct cell_at at, const struct kept *kept, struct carry carry, struct tensor o)
{
    struct state state = state_new(at, false);
    state_begin(at, carry, state);
    mix(at, kept, carry, state, o);
    state_free(at, &state);
}

static void projections_forward(struct cell_at at, struct tensor x, const struct kept *to)
{
    static const size_t projected[] = {[QKV] = KEPT_QKV, [Z] = KEPT_Z, [B] = KEPT_B, [A] = KEPT_A};
    struct model *model = at.model;
    const struct block *block = block_of(at);
    size_t n = x.rows, max = block_rows(model, at.layer, n);
    struct tensor h = block->norm && !to->h.data ? scratch(model, max, x.cols) : tensor_none();
    for (struct blocks b = blocks_of(model->device, n, max); blocks_next(&b);) {
        struct tensor in = block_input(model, block, to->h, to->rstd, h, x, b.row, b.count);
        for (size_t i = QKV; i <= A; i++) {
            struct tensor y = to->own[projected[i]];
            if (y.data)
                projection_forward(model, &block->parameters[i], tensor_rows(y, b.row, b.count), in, false);
        }
    }
    tensor_free(model->device, &h);
}

// All that a cell projects, and what it keeps of the norm of x.
static void project_all(struct cell_at at, struct tensor x, struct kept *kept, enum keep how)
{
    struct model *model = at.model;
    const struct layer_kind *kind = kind_of(model, at.layer);
    kept->own[KEPT_QKV] = activation(model, x.rows, conv_cols(kind));
    kept->own[KEPT_Z] = activation(model, x.rows, value_cols(kind));
    kept->own[KEPT_B] = activation(model, x.rows, kind->heads);
    kept->own[KEPT_A] = activation(model, x.rows, kind->heads);
    block_keep_input(model, block_of(at), kept, x.rows, how);
    if (how == KEEP_ALL)
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
    if (ahead)
        project_all(at, x, &a->mixer, how);
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

// y = rmsnorm(o) silu(z), by rows from `row` on; Keeps rstd where KEPT_RSTD is a tensor.
static void gated_norm(struct model *model, size_t layer, const struct kept *kept, size_t row, struct tensor y)
{
    const struct layer_kind *kind = kind_of(model, layer);
    size_t rows = y.rows, norms = rows * kind->heads;
    struct tensor o = tensor_rows(kept->own[KEPT_O], row, rows);
    op_rmsnorm_forward(model->device, tensor_reshape(y, norms, kind->value_dim),
                       tensor_rows(kept->own[KEPT_RSTD], row * kind->heads, norms),
                       tensor_reshape(o, norms, kind->value_dim),
                       model->layers[layer].mixer.parameters[NORM].weight->value, 0, kind->gate_epsilon);
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

static void forward(struct cell_at at, struct tensor x, struct carry carry, struct activations *a, enum keep how)
{
    struct model *model = at.model;
    const struct layer_kind *kind = kind_of(model, at.layer);
    struct kept *kept = &a->mixer;
    bool keeping = how != KEEP_NOTHING, ahead = kept->own[KEPT_QKV].data;
    if (!ahead)
        project_all(at, x, kept, how);
    if (!ahead && a->output != OUTPUT_WRITTEN) {
        keep_output(at, a, x.rows);
        mix_from_left(at, kept, carry, kept->own[KEPT_O]);
    }
    if (keeping)
        kept->own[KEPT_RSTD] = statistic(model, x.rows * kind->heads, 1);
    if (how == KEEP_ALL) {
        kept->own[KEPT_Y] = activation(model, x.rows, value_cols(kind));
        gated_norm(model, at.layer, kept, 0, kept->own[KEPT_Y]);
    }
    if (!keeping) {
        tensor_free(model->device, &kept->own[KEPT_QKV]);
        tensor_free(model->device, &kept->own[KEPT_A]);
        tensor_free(model->device, &kept->own[KEPT_B]);
    }
}

// ---- backward

// grad: of what is projected, becomes that of o; z becomes its gradient.
static void gated_norm_backward(struct cell_at at, const struct kept *kept, struct tensor grad)
{
    struct model *model = at.model;
    struct device *device = model->device;
    const struct layer_kind *kind = kind_of(model, at.layer);
    const struct parameter *gain = parameter_of(at, NORM);
    size_t max = block_rows(model, at.layer, grad.rows), heads = kind->heads, cols = kind->value_dim;
    struct tensor normed = scratch(model, max, grad.cols);
    for (struct blocks b = blocks_of(device, grad.rows, max); blocks_next(&b);) {
        size_t norms = b.count * heads;
        struct tensor o = tensor_reshape(tensor_rows(kept->own[KEPT_O], b.row, b.count), norms, cols);
        struct tensor up = tensor_rows(normed, 0, b.count), up_heads = tensor_reshape(up, norms, cols);
        struct tensor rows = tensor_rows(grad, b.row, b.count);
        op_rmsnorm_forward(device, up_heads, tensor_none(), o, gain->value, 0, kind->gate_epsilon);
        op_swiglu_backward(device, tensor_rows(kept->own[KEPT_Z], b.row, b.count), up, rows, ACTIVATION_SILU);
        op_rmsnorm_backward(device, tensor_reshape(rows, norms, cols), false, gain->grad, up_heads, o, gain->value,
                            0, tensor_rows(kept->own[KEPT_RSTD], b.row * heads, norms));
    }
    tensor_free(device, &normed);
}

// From the gradients of o and of the state to those of what was projected: a and b become theirs, and grad_qkv is
// qkv's.
static void mix_backward(struct cell_at at, const struct kept *kept, struct carry carry, struct carry of_grad,
                         struct tensor grad_o, struct tensor grad_qkv)
{
    struct device *device = at.model->device;
    struct tensor qkv = kept->own[KEPT_QKV], conv = kept->own[KEPT_CONV], filter = parameter_of(at, FILTER)->value;
    struct state left = state_before(at, carry), base = state_of(at, carry), grad = state_of(at, of_grad);
    struct state own = state_new(at, left.s.data);
    struct delta_shape shape = shape_of(kind_of(at.model, at.layer), at.batch, at.chunk);
    struct tensor decay = gate_new(at, qkv.rows), beta = gate_new(at, qkv.rows), grad_decay, grad_beta;
    if (!conv.data) {
        conv = scratch(at.model, qkv.rows, qkv.cols);
        state_begin(at, carry, own);
        op_short_conv_forward(device, shape.run, conv, qkv, own.tail, base.base_tail, filter);
    }
    left = left.s.data ? left : own;
    gates(at, kept, decay, beta);
    grad_decay = gate_new(at, qkv.rows), grad_beta = gate_new(at, qkv.rows);
    op_delta_rule_backward(device, shape, grad_qkv, grad_decay, grad_beta, grad.s, grad.base_s, grad_o, left.s,
                           base.base_s, conv, decay, beta);
    if (conv.data != kept->own[KEPT_CONV].data)
        tensor_free(device, &conv);
    op_short_conv_backward(device, shape.run, grad_qkv, grad.tail, grad.base_tail, parameter_of(at, FILTER)->grad,
                           grad_qkv, qkv, left.tail, base.base_tail, filter);
    op_delta_gates_backward(device, kept->own[KEPT_A], kept->own[KEPT_B], parameter_of(at, A_LOG)->grad,
                            parameter_of(at, DT_BIAS)->grad, grad_decay, grad_beta, kept->own[KEPT_A],
                            kept->own[KEPT_B], parameter_of(at, A_LOG)->value, parameter_of(at, DT_BIAS)->value,
                            beta_scale(at));
    tensor_free(device, &grad_beta);
    tensor_free(device, &grad_decay);
    tensor_free(device, &beta);
    tensor_free(device, &decay);
    state_free(at, &own);
}

// grads: of what was projected, by parameter.
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
    for (struct blocks b = blocks_of(model->device, grad.rows, max); blocks_next(&b);) {
        struct tensor rows = tensor_rows(grad, b.row, b.count), grad_u[A + 1] = {{0}};
        struct tensor h = block_input_again(model, block, &a->mixer, scratch_h, a->x, b.row, b.count);
        // Without a norm the gradient is added where that of x is summed; else it takes the place of h.
        struct tensor grad_h = normed ? h : rows;
        for (size_t i = QKV; i <= A; i++)
            projection_backward_weights(model, &w[i], tensor_rows(grads[i], b.row, b.count), &grad_u[i], h);
        for (size_t i = QKV; needed && i <= A; i++)
            projection_backward_input(model, &w[i], grad_h, tensor_rows(grads[i], b.row, b.count), &grad_u[i],
                                      !normed || i > QKV);
        for (size_t i = A + 1; i-- > QKV;)
            tensor_free(model->device, &grad_u[i]);
        block_input_backward(model, block, &a->mixer, descends, rows, h, a->x, b.row);
    }
    tensor_free(model->device, &scratch_h);
}

static void backward(struct cell_at at, const struct activations *a, struct carry carry,
                     const struct carry_segment *segments, size_t count, struct tensor grad_output,
                     struct tensor grad)
{
    const struct kept *kept = &a->mixer;
    struct tensor grad_qkv = scratch(at.model, grad.rows, kept->own[KEPT_QKV].cols);
    gated_norm_backward(at, kept, grad_output);
    mix_backward(at, kept, carry, segments[count - 1].grad, grad_output, grad_qkv);
    const struct tensor grads[] = {
        [QKV] = grad_qkv, [Z] = kept->own[KEPT_Z], [B] = kept->own[KEPT_B], [A] = kept->own[KEPT_A]};
    projections_backward(at, a, grads, grad);
    tensor_free(at.model->device, &grad_qkv);
}

// ---- what it costs

static struct carry_shape carry(const struct model *model, size_t layer)
{
    const struct layer_kind *kind = kind_of(model, layer);
    size_t state = kind->heads * kind->head_dim * kind->value_dim, tail = TAIL * conv_cols(kind);
    enum dtype dtype = model->device->ops->dtype, sums = dtype_statistic(dtype);
    return (struct carry_shape){{{state, tail}, {sums, dtype}}, {{state, tail}, {sums, sums}}};
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

const struct mixer mixer_delta = {
    .kind = {.name = "delta", .parameters = parameters, .shape = shape, .kept_bytes = kept_bytes},
    .check = check,
    .carry = carry,
    .at_borders = true,
    .outputs = outputs,
    .output = output,
    .project = project,
    .forward = forward,
    .backward = backward,
    .whole = true,
    .flops = flops,
};
