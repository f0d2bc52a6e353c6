#include "methods/schedule/log_probs.h"
#include "kernels/device/observer.h"
#include "methods/schedule/forward_pass.h"

void log_prob_pass(struct model *model, const struct batch *batch, struct tensor log_prob,
                   struct log_prob_options options)
{
    struct device *device = model->device;
    bool without = model->without_adapter;
    model->without_adapter = options.without_adapter;
    range_push(device, (struct range){.level = RANGE_STEP, .name = "log_probs"});
    struct tensor x = tensor_new(device, batch->context * batch->batch, model->config.width, device->ops->dtype,
                                 CATEGORY_ACTIVATIONS);
    forward_rows(model, batch, options.chunk, x);
    if (ranks_highest(&model->ranks))
        head_log_probs(model, batch, x, options.head_chunk, log_prob);
    tensor_free(device, &x);
    range_pop(device);
    model->without_adapter = without;
}
