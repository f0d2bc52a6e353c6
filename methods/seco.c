// SeCO: the forward keeps keys and values alone; the columns are walked right to left, each rebuilt on its own.
// Li et al. 2025, arXiv 2505.16710, Algorithm 1.
// Cost: at most 4 F + A / 2: the last column needs no first pass, in the first pass the top layer stops after its
// keys and values, and no second pass projects them again (but keys that are normed). With inner checkpoint at most
// 5 F + A / 2. Memory per token: L 2 G D (e + a), plus one column's activations. Deviations: the published code
// runs the savings above in full and concatenates the prefix; the gradient is the same.
#include "methods/column.h"
#include "methods/columns.h"
#include "methods/cost.h"

static const struct option option_rows[] = {OPTION_CHUNK(struct column_options),
                                            OPTION_HEAD_CHUNK(struct column_options),
                                            OPTION_KEEP(struct column_options),
                                            OPTION_INNER(struct column_options),
                                            {0}};

static void walk(struct step *step)
{
    const struct column_options *options = step->options;
    struct model *model = step->model;
    struct device *device = model->device;
    size_t layers = model->config.layers, B = step->batch->batch, rows = step->batch->context * B;
    struct columns columns = columns_of(step->batch->context, options->chunk);
    struct kv *kv = calloc(layers, sizeof *kv), *grad_kv = calloc(layers, sizeof *grad_kv); // [T B, G D] each
    struct key_segment *seen = calloc(layers, sizeof *seen);
    CHECK(kv && grad_kv && seen);

    for (size_t l = 0; l < layers; l++) {
        kv[l] = kv_new(model, rows, device->ops->dtype, CATEGORY_KV_CACHE);
    }
    bool gathers = objective_gathers(step->batch);
    size_t cached = gathers ? columns.count : columns.count - 1;
    for (size_t c = 0; c < cached; c++) {
        column_forward(step, column_span(columns, c), kv, gathers ? COLUMN_LOSS : COLUMN_KV);
    }
    objective_settle(device, step->batch, step->loss);

    for (size_t l = 0; l < layers; l++) {
        grad_kv[l] = kv_new(model, rows, model->kv_gradient_dtype, CATEGORY_KV_GRADIENTS);
        op_zero(device, grad_kv[l].k);
        op_zero(device, grad_kv[l].v);
    }
    for (size_t c = columns.count; c-- > 0;) {
        struct span chunk = column_span(columns, c);
        size_t end = chunk.start + chunk.count;
        for (size_t l = 0; l < layers; l++) {
            struct kv grad_seen = kv_rows(grad_kv[l], 0, end * B);
            seen[l] = (struct key_segment){0, end, grad_seen.k, grad_seen.v};
        }
        column_backward(step, chunk, kv, c < cached, c == 0, seen, 1, (struct loss_weights){1, 1});
    }
    for (size_t l = 0; l < layers; l++) {
        kv_free(model, &grad_kv[l]);
        kv_free(model, &kv[l]);
    }
    free(seen);
    free(grad_kv);
    free(kv);
}

static double floor_bytes(const struct model *model, const void *options, size_t context)
{
    (void)options, (void)context;
    return model->config.layers * (cost_kv(model) + cost_kv_gradients(model));
}

const struct method method_seco = {
    .name = "seco",
    .summary = "keep keys and values, rebuild a chunk of all layers at a time from the right",
    .source = "Li et al. 2025, arXiv 2505.16710, Algorithm 1",
    .options = {option_rows, sizeof(struct column_options)},
    .exact = true,
    .walk = walk,
    .floor_bytes_per_token = floor_bytes,
};
