// An MLP in one file, likewise: x + W (act(h) * h), h the norm of x, or x.
#include "kernels/layers/block_ends.h"
#include "kernels/model/carry.h"

static const struct block_parameter parameters[] = {{.name = "mlp.gated_proj", .target = LORA_DOWN}, {0}};

static struct block_shape shape(const struct config *c, size_t layer, size_t parameter)
{
    (void)layer;
    (void)parameter;
    return (struct block_shape){.out = c->width, .in = c->width};
}

static void forward(struct cell_at at, struct tensor x, struct tensor y, struct kept *kept, enum keep how)
{
    struct model *model = at.model;
    struct device *device = model->device;
    const struct block *block = &model->layers[at.layer].mlp;
    size_t n = x.rows, max = block_rows(model, at.layer, n);
    bool keeping = how != KEEP_NOTHING, output = y.data || (keeping && block->out_norm);
    if (keeping && block->norm)
        kept->rstd = norm_statistics(model, n);
    if (keeping)
        block_keep_output(model, block, kept, n);
    if (how == KEEP_ALL && block->norm)
        kept->h = activation(model, n, x.cols);
    struct tensor h = scratch(model, max, x.cols), act = scratch(model, max, x.cols),
                  normed = scratch(model, max, x.cols);
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        struct tensor in = block_input(model, block, kept->h, kept->rstd, h, x, b.row, b.count);
        struct tensor product = tensor_rows(act, 0, b.count);
        if (!output)
            continue;
        op_swiglu_forward(device, product, in, in, model->config.activation);
        block_output(model, block, kept, b.row, tensor_rows(normed, 0, b.count), tensor_rows(y, b.row, b.count),
                     tensor_rows(x, b.row, b.count), product);
    }
    tensor_free(device, &normed);
    tensor_free(device, &act);
    tensor_free(device, &h);
}

static void backward(struct cell_at at, struct tensor x, struct kept *kept, struct tensor grad)
{
    struct model *model = at.model;
    struct device *device = model->device;
    const struct block *block = &model->layers[at.layer].mlp;
    size_t n = grad.rows, max = block_rows(model, at.layer, n);
    struct tensor made[5]; // h, gate, up, act, and the gradient of what is projected
    for (size_t i = 0; i < 5; i++)
        made[i] = scratch(model, max, x.cols);
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        struct tensor grad_rows = tensor_rows(grad, b.row, b.count), x_rows = tensor_rows(x, b.row, b.count);
        struct tensor h = block_input_again(model, block, kept, made[0], x, b.row, b.count), grad_u = {0};
        struct tensor gate = tensor_rows(made[1], 0, b.count), up = tensor_rows(made[2], 0, b.count);
        struct tensor act = tensor_rows(made[3], 0, b.count);
        struct tensor grad_out = block_output_gradient(model, block, kept, b.row, made[4], grad_rows);
        op_copy(device, gate, h);
        op_copy(device, up, h);
        projection_backward_input(model, block->out, act, grad_out, &grad_u, false);
        op_swiglu_backward(device, gate, up, act, model->config.activation);
        projection_backward_weights(model, block->out, grad_out, &grad_u, act);
        tensor_free(device, &grad_u);
        op_accumulate(device, gate, up);
        if (block->norm)
            norm_backward(model, block->norm, grad_rows, true, gate, x_rows,
                          tensor_rows(kept->rstd, b.row, b.count));
        else
            op_accumulate(device, grad_rows, gate);
    }
    for (size_t i = 5; i-- > 0;)
        tensor_free(device, &made[i]);
    tensor_free(device, &kept->h);
    tensor_free(device, &kept->out);
}

static double kept_bytes(const struct model *model, size_t layer)
{
    (void)model, (void)layer;
    return 0;
}

static size_t width(const struct config *config, size_t layer)
{
    (void)layer;
    return config->width;
}

const struct mlp mlp_gated = {
    .kind = {.name = "gated", .parameters = parameters, .shape = shape, .kept_bytes = kept_bytes},
    .forward = forward,
    .backward = backward,
    .width = width,
};
