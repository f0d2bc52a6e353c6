#include "methods/schedule/forward_pass.h"
#include "kernels/layers/cell.h"
#include "kernels/layers/forward.h"
#include "kernels/layers/head.h"
#include "kernels/model/unit.h"
#include "kernels/objectives/objective_pass.h"
#include "methods/schedule/pipeline.h"

void forward_rows(struct model *model, const struct batch *batch, size_t chunk, struct tensor x)
{
    if (ranks_lowest(&model->ranks))
        embed_forward(model, batch, x, 0);
    pipeline_take_input(model, x);
    for (size_t l = model->ranks.first_layer; l < model->ranks.end_layer; l++)
        layer_forward(model, batch, l, chunk, x, x, (struct kept_outputs){0});
    pipeline_pass_output(model, x);
}

void forward_pass(struct model *model, const struct batch *batch, size_t chunk, size_t head_chunk,
                  struct tensor loss)
{
    struct device *device = model->device;
    struct tensor x = tensor_new(device, batch->context * batch->batch, model->config.width, device->ops->dtype,
                                 CATEGORY_ACTIVATIONS);
    forward_rows(model, batch, chunk, x);
    if (ranks_highest(&model->ranks) && objective_gathers(batch))
        head_first_pass(model, batch, x, head_chunk, loss);
    else if (ranks_highest(&model->ranks))
        head_loss(model, batch, x, 0, head_chunk, loss);
    tensor_free(device, &x);
}

struct objective_sums forward_loss(struct model *model, const struct batch *batch, size_t chunk, size_t head_chunk)
{
    struct tensor loss = objective_sums_new(model->device, batch);
    forward_pass(model, batch, chunk, head_chunk, loss);
    unit_settle(model);
    struct objective_sums sums = objective_sums_read(model->device, batch, loss);
    tensor_free(model->device, &loss);
    return sums;
}
