// StreamBP: checkpoints as above, but a row is rebuilt and walked chunk by chunk, right to left; its keys and
// values are rebuilt once. Luo et al. 2025, arXiv 2506.03077. Cost: at most 4 F + A / 2;
// a rebuilt cell stops before its down-projection. Memory per token: L d e, plus one row's keys, values and their
// gradients, and one gradient of width d. Deviations: the published code projects K and V again for [0, end of
// chunk) at every chunk and repeats them to all query heads; its loss counts labels before shifting. Here as the
// paper's equations say, and the loss is exact. The forward is streamed too: else its own scratch, not the
// backward's, would set the peak.
#include "methods/columns.h"
#include "methods/cost.h"
#include "methods/method.h"

struct streambp_options {
    size_t chunk, head_chunk;
    enum keep keep;
};

static const struct option option_rows[] = {OPTION_CHUNK(struct streambp_options),
                                            OPTION_HEAD_CHUNK(struct streambp_options),
                                            OPTION_KEEP(struct streambp_options),
                                            {0}};

// x: [T B, d]
static struct tensor tokens_of(struct tensor x, struct span chunk, size_t B)
{
    return tensor_rows(x, chunk.start * B, chunk.count * B);
}

static void walk(struct step *step)
{
    const struct streambp_options *options = step->options;
    struct model *model = step->model;
    struct device *device = model->device;
    size_t layers = model->config.layers, B = step->batch->batch, rows = step->batch->context * B;
    enum dtype dtype = device->ops->dtype;
    struct columns columns = columns_of(step->batch->context, options->chunk);
    struct tensor *x = calloc(layers + 1, sizeof *x); // x[l]: [T B, d], input of layer l
    CHECK(x);

    x[0] = tensor_new(device, rows, model->config.width, dtype, CATEGORY_HIDDEN_CHECKPOINTS);
    embed_forward(model, step->batch, x[0], 0);
    for (size_t l = 0; l < layers; l++) {
        struct kv kv = kv_new(model, rows, dtype, CATEGORY_KV_CACHE);
        x[l + 1] = tensor_new(device, rows, model->config.width, dtype, CATEGORY_HIDDEN_CHECKPOINTS);
        unit_acquire(model, unit_of_layer(l));
        for (size_t c = 0; c < columns.count; c++) {
            struct span chunk = column_span(columns, c);
            struct tensor x_c = tokens_of(x[l], chunk, B), y_c = tokens_of(x[l + 1], chunk, B);
            kv_project(model, l, chunk, x_c, kv, NULL);
            cell_forward(model, l, chunk, x_c, kv, y_c, NULL, KEEP_LEAN);
        }
        unit_release(model, unit_of_layer(l));
        kv_free(model, &kv);
    }

    // grad holds the gradient of the row above; each chunk's is spent when that of its input is complete, so it
    // takes its place.
    struct tensor grad = x[layers];
    head_first_pass(model, step->batch, grad, options->head_chunk, step->loss);
    head_backward(model, step->batch, grad, 0, options->head_chunk, (struct loss_weights){1, 1}, step->loss);
    unit_done(model, unit_of_head(model));
    for (size_t l = layers; l-- > 0;) {
        struct kv kv = kv_new(model, rows, dtype, CATEGORY_KV_CACHE);
        struct kv grad_kv = kv_new(model, rows, model->kv_gradient_dtype, CATEGORY_KV_GRADIENTS);
        op_zero(device, grad_kv.k);
        op_zero(device, grad_kv.v);
        unit_acquire(model, unit_of_layer(l));
        kv_project(model, l, (struct span){0, step->batch->context}, x[l], kv, NULL);
        for (size_t c = columns.count; c-- > 0;) {
            struct span chunk = column_span(columns, c);
            size_t end = chunk.start + chunk.count;
            struct kv grad_seen = kv_rows(grad_kv, 0, end * B);
            struct key_segment seen = {0, end, grad_seen.k, grad_seen.v};
            struct activations rebuilt = {0};
            cell_forward(model, l, chunk, tokens_of(x[l], chunk, B), kv, tensor_none(), &rebuilt, options->keep);
            cell_backward(model, l, chunk, &rebuilt, kv, &seen, 1, tokens_of(grad, chunk, B));
        }
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
    return model->config.layers * cost_hidden(model) + cost_hidden(model) + cost_kv(model) +
           cost_kv_gradients(model);
}

const struct method method_streambp = {
    .name = "streambp",
    .summary = "keep each layer's input, rebuild a layer chunk by chunk from the right",
    .source = "Luo et al. 2025, arXiv 2506.03077",
    .options = {option_rows, sizeof(struct streambp_options)},
    .exact = true,
    .walk = walk,
    .floor_bytes_per_token = floor_bytes,
};
