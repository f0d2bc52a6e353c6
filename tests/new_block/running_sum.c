// A mixer in one file: what tests/check_new_block adds to the tables by one line. It carries a state from chunk to
// chunk: s_t = s_(t-1) + h_t, h the norm of x, or x; x + W s + b goes on. Documents share the state.
#include "kernels/layers/block_ends.h"
#include "kernels/model/carry.h"

static const struct block_parameter parameters[] = {{.name = "mixer.out_proj", .target = LORA_O}, {0}};

static struct block_shape shape(const struct config *c, size_t layer, size_t parameter)
{
    (void)layer;
    (void)parameter;
    return (struct block_shape){c->width, c->width, true};
}

static const struct block *block_of(const struct model *model, size_t layer)
{
    return &model->layers[layer].mixer;
}

// The rows of token number t of x, [tokens * B, d].
static struct tensor token(struct tensor x, size_t t, size_t B)
{
    return tensor_rows(x, t * B, B);
}

// The state left of the chunk, [B, d], or 0; to be freed.
static struct tensor state_new(struct cell_at at, struct carry carry, size_t B)
{
    struct tensor state = scratch(at.model, B, at.model->config.width);
    struct carry left = carry_before(carry, at.chunk.start * B);
    if (left.t[0].data)
        op_copy(at.model->device, state, left.t[0]);
    else
        op_zero(at.model->device, state);
    return state;
}

// Adds the chunk's h to the state, token by token; o: [n, d], its value behind each, or no tensor.
static void sum(struct cell_at at, struct tensor x, struct tensor state, struct tensor o, struct kept *kept)
{
    struct device *device = at.model->device;
    const struct block *block = block_of(at.model, at.layer);
    size_t n = x.rows, B = state.rows, rows = block_rows(at.model, at.layer, n), max = rows > B ? rows / B * B : B;
    struct tensor h = block->norm && !kept->h.data ? scratch(at.model, max, x.cols) : tensor_none();
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        struct tensor in = block_input(at.model, block, kept->h, kept->rstd, h, x, b.row, b.count);
        for (size_t t = 0; t < b.count / B; t++) {
            op_accumulate(device, state, token(in, t, B));
            if (o.data)
                op_copy(device, token(o, b.row / B + t, B), state);
        }
    }
    tensor_free(device, &h);
}

static void keep_activations(struct cell_at at, struct tensor x, struct activations *a, enum keep how)
{
    struct kept *kept = &a->mixer;
    bool normed = block_of(at.model, at.layer)->norm;
    if (how != KEEP_NOTHING && normed && !kept->rstd.data) // there may have been room for it alone
        kept->rstd = norm_statistics(at.model, x.rows);
    if (how == KEEP_ALL && normed && !kept->h.data)
        kept->h = activation(at.model, x.rows, x.cols);
    if (a->output == OUTPUT_OWN)
        kept->own[0] = activation(at.model, x.rows, x.cols);
}

// ahead: with the outputs, because the state to the left may be the one that moves on.
static void project(struct cell_at at, struct tensor x, struct carry carry, struct activations *a, enum keep how,
                    bool ahead)
{
    size_t B = x.rows / at.chunk.count;
    struct tensor right = carry_rows(carry, at.chunk.start * B, x.rows).t[0];
    bool makes = ahead && a->output == OUTPUT_OWN;
    if (right.rows == 0 && !makes)
        return; // behind the last chunk
    struct tensor state = state_new(at, carry, B);
    if (makes)
        keep_activations(at, x, a, how);
    sum(at, x, state, makes ? a->mixer.own[0] : tensor_none(), makes ? &a->mixer : &(struct kept){0});
    if (right.rows > 0)
        op_copy(at.model->device, right, state);
    tensor_free(at.model->device, &state);
}

static void forward(struct cell_at at, struct tensor x, struct carry carry, struct activations *a, enum keep how)
{
    if (a->output == OUTPUT_OWN && a->mixer.own[0].data)
        return; // they are made
    keep_activations(at, x, a, how);
    struct tensor state = state_new(at, carry, x.rows / at.chunk.count);
    sum(at, x, state, a->output == OUTPUT_WRITTEN ? tensor_none() : a->mixer.own[0], &a->mixer);
    tensor_free(at.model->device, &state);
}

// From the right: the gradient of h_t is the sum of those of s_t and of all behind it, and of the state's that
// comes in times its factor; the state's goes out to the left without it.
static void backward(struct cell_at at, const struct activations *a, struct carry carry,
                     const struct carry_segment *segments, size_t count, struct tensor grad_o, struct tensor grad)
{
    (void)carry;
    struct model *model = at.model;
    struct device *device = model->device;
    const struct block *block = block_of(model, at.layer);
    const struct carry_segment *own = &segments[count - 1];
    size_t B = grad.rows / at.chunk.count;
    struct tensor passing = own->grad.t[0], entering = scratch(model, B, grad.cols);
    op_copy(device, entering, passing);
    if (own->factor != 0 && own->factor != 1)
        op_scale(device, entering, own->factor);
    for (size_t t = at.chunk.count; t-- > 0;) {
        op_accumulate(device, passing, token(grad_o, t, B));
        op_accumulate(device, entering, token(grad_o, t, B));
        op_copy(device, token(grad_o, t, B), entering);
    }
    tensor_free(device, &entering);
    bool descends = model_descends(model, at.layer);
    if (block->norm && (descends || block->norm->grad.data))
        norm_backward(model, block->norm, descends ? grad : tensor_none(), true, grad_o, a->x, a->mixer.rstd);
    else if (descends)
        op_accumulate(device, grad, grad_o);
}

static struct pair_shape outputs(const struct model *model, size_t layer)
{
    (void)layer;
    return (struct pair_shape){{model->config.width}, {model->device->ops->dtype}};
}

static struct carry_shape carry(const struct model *model, size_t layer)
{
    struct pair_shape state = outputs(model, layer), grad = state;
    grad.dtype[0] = model->kv_gradient_dtype;
    return (struct carry_shape){.value = state, .grad = grad};
}

static double kept_bytes(const struct model *model, size_t layer)
{
    (void)layer;
    return (double)model->config.width * dtype_bytes(model->device->ops->dtype); // o
}

const struct mixer mixer_running_sum = {
    .kind = {.name = "running_sum", .parameters = parameters, .shape = shape, .kept_bytes = kept_bytes},
    .carry = carry,
    .at_borders = true,
    .outputs = outputs,
    .project = project,
    .forward = forward,
    .backward = backward,
};
