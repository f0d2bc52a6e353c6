#include "kernels/trainer/router_bias.h"
#include "kernels/trainer/weights.h"
#include <string.h>

static size_t count_of(const struct model *model)
{
    return model->router_counts ? model->config.layers * model->config.experts.routing.experts : 0;
}

void router_bias_zero(struct model *model)
{
    if (model->router_counts)
        memset(model->router_counts, 0, count_of(model) * sizeof *model->router_counts);
}

// Losses by sequence are summed over ranks with the same sequences alone; all counts alike, as often as those are.
static void sum_over_replicas(struct model *model)
{
    const struct comm *replicas = &model->ranks.replicas;
    if (model->router_losses.form != ROUTER_LOSS_SEQUENCE || replicas->size == 1)
        return;
    struct tensor counts = tensor_new(model->device, count_of(model), 1, DTYPE_F64, CATEGORY_WORKSPACE);
    op_upload(model->device, counts, model->router_counts);
    comm_sum(replicas, model->device, counts);
    op_download(model->device, model->router_counts, counts);
    tensor_free(model->device, &counts);
}

// The block's biases, its one vector that never trains; NULL: it has none.
static struct parameter *bias_of(const struct model *model, size_t layer)
{
    for (size_t i = 0; i < BLOCK_PARAMETERS; i++) {
        struct parameter *p = model->layers[layer].mlp.parameters[i].weight;
        if (p && p->constant && config_mlp(&model->config, layer)->chooses)
            return p;
    }
    return NULL;
}

static void move(struct model *model, struct parameter *bias, const double *counts)
{
    size_t experts = model->config.experts.routing.experts;
    double values[ROUTING_EXPERTS_MAX] = {0}, mean = 0;
    tensor_read(model->device, bias->kept[0].data ? bias->kept[0] : bias->value, values);
    for (size_t e = 0; e < experts; e++)
        mean += counts[e] / (double)experts;
    for (size_t e = 0; e < experts; e++)
        values[e] += model->router_losses.bias_update * ((counts[e] < mean) - (counts[e] > mean));
    if (!model->device->ops->dataless)
        weights_write(model, bias, 0, experts, values, model->device->ops->dtype);
}

void router_bias_move(struct model *model)
{
    if (!model->router_counts || model->device->status.code != STATUS_OK)
        return;
    sum_over_replicas(model);
    for (size_t l = model->ranks.first_layer; l < model->ranks.end_layer; l++)
        if (bias_of(model, l))
            move(model, bias_of(model, l), model->router_counts + l * model->config.experts.routing.experts);
}
