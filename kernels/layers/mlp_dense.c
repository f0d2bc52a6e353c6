// Dense MLP: y = x + down(act(gate h) * (up h)), h the norm of x, or x; in blocks of rows.
#include "kernels/layers/block_ends.h"
#include "kernels/model/carry.h"

enum { GATE, UP, GATE_UP, DOWN };
enum { KEPT_GATE, KEPT_UP, KEPT_ACT }; // [n, f] each; act with `all` only

static const struct block_parameter parameters[] = {[GATE] = {"mlp.gate_proj", LORA_GATE},
                                                    [UP] = {"mlp.up_proj", LORA_UP},
                                                    [GATE_UP] = {"mlp.gate_up_proj", LORA_GATE_UP, .joins = 2},
                                                    [DOWN] = {"mlp.down_proj", LORA_DOWN},
                                                    {0}};

static struct block_shape shape(const struct config *c, size_t layer, size_t parameter)
{
    (void)layer;
    const struct block_shape shapes[] = {
        [GATE] = {c->ffn, c->width, c->mlp_bias},
        [UP] = {c->ffn, c->width, c->mlp_bias},
        [GATE_UP] = {0},
        [DOWN] = {c->width, c->ffn, c->mlp_bias},
    };
    return shapes[parameter];
}

static void forward(struct cell_at at, struct tensor x, struct tensor y, struct kept *kept, enum keep how)
{
    struct model *model = at.model;
    struct device *device = model->device;
    const struct block *block = &model->layers[at.layer].mlp;
    const struct projection *p = block->parameters;
    const struct config *c = &model->config;
    size_t n = x.rows, max = block_rows(model, at.layer, n);
    bool keeping = how != KEEP_NOTHING, all = how == KEEP_ALL, output = y.data || (keeping && block->out_norm);
    struct tensor h = {0}, gate = {0}, up = {0}, act = {0}, normed = {0};
    if (keeping) {
        kept->rstd = block->norm ? norm_statistics(model, n) : tensor_none();
        kept->own[KEPT_GATE] = activation(model, n, c->ffn);
        kept->own[KEPT_UP] = activation(model, n, c->ffn);
        block_keep_output(model, block, kept, n);
    } else {
        gate = scratch(model, max, c->ffn);
        up = scratch(model, max, c->ffn);
    }
    if (all && block->norm)
        kept->h = activation(model, n, c->width);
    else if (block->norm)
        h = scratch(model, max, c->width);
    if (all)
        kept->own[KEPT_ACT] = activation(model, n, c->ffn);
    else if (keeping && output)
        act = scratch(model, max, c->ffn);
    if (block->out_norm)
        normed = scratch(model, max, c->width);
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor h_block = block_input(model, block, kept->h, kept->rstd, h, x, row, rows);
        struct tensor gate_block = tensor_rows(keeping ? kept->own[KEPT_GATE] : gate, keeping ? row : 0, rows);
        struct tensor up_block = tensor_rows(keeping ? kept->own[KEPT_UP] : up, keeping ? row : 0, rows);
        // Nothing kept: the product may take the gate's place.
        struct tensor act_block = all       ? tensor_rows(kept->own[KEPT_ACT], row, rows)
                                  : keeping ? tensor_rows(act, 0, rows)
                                            : gate_block;
        projection_forward(model, &p[GATE], gate_block, h_block, false);
        projection_forward(model, &p[UP], up_block, h_block, false);
        if (all || output)
            op_swiglu_forward(device, act_block, gate_block, up_block, c->activation);
        if (output) {
            block_output(model, block, kept, row, tensor_rows(normed, 0, rows), tensor_rows(y, row, rows),
                         tensor_rows(x, row, rows), act_block);
        }
    }
    tensor_free(device, &normed);
    tensor_free(device, &act);
    tensor_free(device, &h);
    tensor_free(device, &up);
    tensor_free(device, &gate);
}

static void backward(struct cell_at at, struct tensor x, struct kept *kept, struct tensor grad)
{
    struct model *model = at.model;
    struct device *device = model->device;
    const struct block *block = &model->layers[at.layer].mlp;
    const struct projection *p = block->parameters;
    const struct config *c = &model->config;
    size_t n = grad.rows, max = block_rows(model, at.layer, n);
    bool all = kept->own[KEPT_ACT].data;
    struct tensor act = scratch(model, max, c->ffn);
    struct tensor h = all || !block->norm ? tensor_none() : scratch(model, max, c->width);
    struct tensor grad_out = block->out_norm ? scratch(model, max, c->width) : tensor_none();
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor grad_block = tensor_rows(grad, row, rows), act_block = tensor_rows(act, 0, rows);
        struct tensor gate = tensor_rows(kept->own[KEPT_GATE], row, rows);
        struct tensor up = tensor_rows(kept->own[KEPT_UP], row, rows);
        struct tensor grad_down = block_output_gradient(model, block, kept, row, grad_out, grad_block);
        struct tensor grad_u_down = {0}, grad_u_gate = {0}, grad_u_up = {0};
        projection_backward_input(model, &p[DOWN], act_block, grad_down, &grad_u_down, false);
        // act_block: the gradient, then the product again
        op_swiglu_backward(device, gate, up, act_block, c->activation);
        projection_backward_weights(model, &p[DOWN], grad_down, &grad_u_down,
                                    all ? tensor_rows(kept->own[KEPT_ACT], row, rows) : act_block);
        tensor_free(device, &grad_u_down);
        struct tensor h_block = block_input_again(model, block, kept, h, x, row, rows);
        projection_backward_weights(model, &p[GATE], gate, &grad_u_gate, h_block);
        projection_backward_weights(model, &p[UP], up, &grad_u_up, h_block);
        // With a norm h is spent: its gradient takes its place.
        struct tensor grad_h = block->norm ? h_block : grad_block;
        projection_backward_input(model, &p[GATE], grad_h, gate, &grad_u_gate, !block->norm);
        projection_backward_input(model, &p[UP], grad_h, up, &grad_u_up, true);
        tensor_free(device, &grad_u_up);
        tensor_free(device, &grad_u_gate);
        block_input_backward(model, block, kept, true, grad_block, h_block, x, row);
    }
    tensor_free(device, &grad_out);
    tensor_free(device, &h);
    tensor_free(device, &act);
    for (size_t i = KEPT_GATE; i <= KEPT_ACT; i++)
        tensor_free(device, &kept->own[i]);
    tensor_free(device, &kept->h);
    tensor_free(device, &kept->out);
}

static bool check(const struct config *config, struct status *status)
{
    return config_check_size("ffn", config->ffn, CONFIG_SIZE_MAX, status);
}

static double kept_bytes(const struct model *model, size_t layer)
{
    (void)layer;
    return 2.0 * (double)model->config.ffn * dtype_bytes(model->device->ops->dtype);
}

static size_t width(const struct config *config, size_t layer)
{
    (void)layer;
    return config->ffn;
}

const struct mlp mlp_dense = {
    .kind = {.name = "dense", .parameters = parameters, .shape = shape, .kept_bytes = kept_bytes},
    .check = check,
    .forward = forward,
    .backward = backward,
    .width = width,
};
