// Layer-level gradient checkpointing: the forward keeps each row's input; the backward rebuilds a row, then walks
// it. Chen et al. 2016, arXiv 1604.06174, with one segment per layer. Cost: at most 4 F + A / 2; a rebuilt row
// stops before its down-projection, whose output its own backward does not need. Memory per token: L d e, plus one
// row's activations and one gradient of width d.
#include "methods/cost.h"
#include "methods/method.h"

struct checkpoint_options {
    size_t head_chunk;
    enum keep keep;
};

static const struct option option_rows[] = {
    OPTION_HEAD_CHUNK(struct checkpoint_options), OPTION_KEEP(struct checkpoint_options), {0}};

static void walk(struct step *step)
{
    const struct checkpoint_options *options = step->options;
    struct model *model = step->model;
    struct device *device = model->device;
    size_t layers = model->config.layers, rows = step->batch->context * step->batch->batch;
    struct span all = {0, step->batch->context};
    enum dtype dtype = device->ops->dtype;
    struct tensor *x = calloc(layers + 1, sizeof *x); // x[l]: [T B, d], input of layer l
    CHECK(x);

    x[0] = tensor_new(device, rows, model->config.width, dtype, CATEGORY_HIDDEN_CHECKPOINTS);
    embed_forward(model, step->batch, x[0], 0);
    for (size_t l = 0; l < layers; l++) {
        struct kv kv = kv_new(model, rows, dtype, CATEGORY_KV_CACHE);
        unit_acquire(model, unit_of_layer(l));
        kv_project(model, l, all, x[l], kv, NULL);
        x[l + 1] = tensor_new(device, rows, model->config.width, dtype, CATEGORY_HIDDEN_CHECKPOINTS);
        cell_forward(model, l, all, x[l], kv, x[l + 1], NULL, KEEP_LEAN);
        unit_release(model, unit_of_layer(l));
        kv_free(model, &kv);
    }

    struct tensor grad = x[layers];
    head_first_pass(model, step->batch, grad, options->head_chunk, step->loss);
    head_backward(model, step->batch, grad, 0, options->head_chunk, (struct loss_weights){1, 1}, step->loss);
    unit_done(model, unit_of_head(model));
    for (size_t l = layers; l-- > 0;) {
        struct activations rebuilt = {0};
        struct kv kv = kv_new(model, rows, dtype, CATEGORY_KV_CACHE);
        unit_acquire(model, unit_of_layer(l));
        kv_project(model, l, all, x[l], kv, &rebuilt);
        cell_forward(model, l, all, x[l], kv, tensor_none(), &rebuilt, options->keep);
        cell_backward_mlp(model, l, all, &rebuilt, grad);
        struct kv grad_kv = kv_new(model, rows, model->kv_gradient_dtype, CATEGORY_KV_GRADIENTS);
        op_zero(device, grad_kv.k);
        op_zero(device, grad_kv.v);
        struct key_segment keys = {0, all.count, grad_kv.k, grad_kv.v};
        cell_backward_attention(model, l, all, &rebuilt, kv, &keys, 1, grad);
        unit_release(model, unit_of_layer(l));
        kv_free(model, &grad_kv);
        kv_free(model, &kv);
        tensor_free(device, &x[l]);
        unit_done(model, unit_of_layer(l));
    }
    embed_backward(model, step->batch, grad, 0);
    unit_done(model, UNIT_EMBEDDING);
    tensor_free(device, &x[layers]);
    free(x);
}

static double floor_bytes(const struct model *model, const void *options, size_t context)
{
    (void)options, (void)context;
    return model->config.layers * cost_hidden(model) + cost_hidden(model) + cost_kv(model) + cost_cell(model);
}

const struct method method_checkpoint = {
    .name = "checkpoint",
    .summary = "keep each layer's input, rebuild a layer at a time",
    .source = "Chen et al. 2016, arXiv 1604.06174",
    .options = {option_rows, sizeof(struct checkpoint_options)},
    .exact = true,
    .walk = walk,
    .floor_bytes_per_token = floor_bytes,
};
