// Full backprop: every cell of one chunk C = T keeps its activations; the backward runs layer by layer downward.
// The reference. Cost: 3 F + A / 2. Memory per token: L (2 d + 2 H D + 2 G D + 2 f) e + L (H + 2) statistics.
// Deviation from a framework's autograd: results that are recomputed without a GEMM are not kept, unless keep is
// `all`.
#include "kernels/layers/choices.h"
#include "methods/method.h"
#include "methods/schedule/cost.h"

struct full_options {
    size_t head_chunk;
    enum keep keep;
    unsigned offload;
};

static const struct option option_rows[] = {OPTION_HEAD_CHUNK(struct full_options),
                                            OPTION_KEEP(struct full_options),
                                            OPTION_OFFLOAD(struct full_options),
                                            {0}};

static void run(struct step *step)
{
    const struct full_options *options = step->options;
    struct model *model = step->model;
    struct device *device = model->device;
    size_t layers = model->config.layers, lowest = model->lowest_trained;
    size_t rows = step->batch->context * step->batch->batch;
    struct span all = {0, step->batch->context};
    struct carry_size size = carry_size_of(step->batch, step->batch->context, step->batch->context);
    enum dtype dtype = device->ops->dtype;
    struct tensor *x = calloc(layers + 1, sizeof *x); // x[l]: [T B, d], input of layer l
    struct carry *kv = calloc(layers, sizeof *kv);
    struct activations *kept = calloc(layers, sizeof *kept);
    CHECK(x && kv && kept);

    x[0] = tensor_new(device, rows, model->config.width, dtype, CATEGORY_ACTIVATIONS);
    embed_forward(model, step->batch, x[0], 0);
    for (size_t l = 0; l < layers; l++) {
        enum keep how = l < lowest ? KEEP_NOTHING : options->keep;
        kv[l] = carry_new(model, l, PLACE_DEVICE, size);
        unit_acquire(model, unit_of_layer(l));
        kv_project(model, step->batch, l, all, x[l], kv[l], &kept[l], how);
        x[l + 1] = tensor_new(device, rows, model->config.width, dtype, CATEGORY_ACTIVATIONS);
        struct carry seen = carry_gather(model, step->batch, l, kv[l]);
        unit_prefetch(model, unit_of_layer(l + 1)); // after the last layer: the head
        cell_forward(model, step->batch, l, all, x[l], seen, x[l + 1], &kept[l], how);
        carry_gathered_free(model, step->batch, l, &seen);
        unit_release(model, unit_of_layer(l));
        if (how == KEEP_NOTHING) {
            carry_free(model, &kv[l]);
            tensor_free(device, &x[l]);
        }
    }

    struct tensor grad = x[layers]; // the head and each layer replace their input by its gradient
    choices_settle(model);
    head_first_pass(model, step->batch, grad, options->head_chunk, step->loss);
    head_backward(model, step->batch, grad, 0, options->head_chunk, (struct loss_weights){.loss = 1, .grad = 1},
                  step->loss);
    unit_done(model, unit_of_head(model));
    for (size_t l = layers; l-- > lowest;) {
        unit_acquire(model, unit_of_layer(l));
        unit_prefetch(model, l > lowest ? unit_of_layer(l - 1) : UNIT_NONE);
        cell_backward_mlp(model, step->batch, l, all, &kept[l], grad);
        struct carry seen = carry_gather_take(model, step->batch, l, kv[l]);
        struct carry grad_kv = carry_gradients_new(model, step->batch, l, all.count);
        struct carry_segment keys = carry_segment_of(grad_kv, all);
        cell_backward_mixer(model, step->batch, l, all, &kept[l], seen, &keys, 1, grad);
        carry_free(model, &seen);
        if (carry_gradients_sum(model, step->batch, l, &grad_kv))
            kv_project_backward(model, step->batch, l, all, x[l], grad_kv, grad);
        unit_release(model, unit_of_layer(l));
        carry_free(model, &grad_kv);
        tensor_free(device, &x[l]);
        unit_done(model, unit_of_layer(l));
    }
    unit_done_below(model, lowest);
    embed_backward(model, step->batch, grad, 0);
    unit_done(model, UNIT_EMBEDDING);
    tensor_free(device, &x[layers]);
    free(kept);
    free(kv);
    free(x);
}

static double lower_bound_bytes(const struct model *model, const void *options, size_t context)
{
    (void)options, (void)context;
    double bytes = cost_choices(model);
    for (size_t l = model->lowest_trained; l < model->config.layers; l++)
        bytes += cost_hidden(model) + cost_carry(model, l, 0) + cost_cell(model, l);
    return bytes;
}

const struct method method_full = {
    .name = "full",
    .summary = "keep every activation; the reference",
    .source = "Rumelhart, Hinton & Williams 1986",
    .options = {option_rows, sizeof(struct full_options)},
    .exact = true,
    .by_layer = true,
    .elsewhere = WALK_FULL,
    .parallel = PARALLEL_DATA | PARALLEL_SEQUENCE,
    .run = run,
    .lower_bound_bytes_per_token = lower_bound_bytes,
};
