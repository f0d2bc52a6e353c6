#include "methods/log_probs.h"
#include "kernels/base/observer.h"
#include "kernels/transformer/forward.h"
#include "methods/pipeline.h"

void log_prob_pass(struct model *model, const struct batch *batch, struct tensor log_prob,
                   struct log_prob_options options)
{
    struct device *device = model->device;
    bool without = model->without_adapter;
    model->without_adapter = options.without_adapter;
    range_push(device, (struct range){.level = RANGE_STEP, .name = "log_probs"});
    struct tensor x = tensor_new(device, batch->context * batch->batch, model->config.width, device->ops->dtype,
                                 CATEGORY_ACTIVATIONS);
    if (ranks_lowest(&model->ranks)) {
        embed_forward(model, batch, x, 0);
    }
    pipeline_take_input(model, x);
    for (size_t l = model->ranks.first_layer; l < model->ranks.end_layer; l++) {
        row_forward(model, batch, l, options.chunk, x);
    }
    pipeline_pass_output(model, x);
    if (ranks_highest(&model->ranks)) {
        head_log_probs(model, batch, x, options.head_chunk, log_prob);
    }
    tensor_free(device, &x);
    range_pop(device);
    model->without_adapter = without;
}
