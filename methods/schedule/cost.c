#include "methods/schedule/cost.h"
#include "kernels/layers/cell.h"
#include <math.h>

static double element(const struct model *model)
{
    return dtype_bytes(model->device->ops->dtype);
}
static double statistic(const struct model *model)
{
    return dtype_bytes(dtype_statistic(model->device->ops->dtype));
}
static double pair_bytes(struct pair_shape shape)
{
    double bytes = 0;
    for (size_t i = 0; i < CARRY_TENSORS; i++)
        bytes += (double)shape.cols[i] * dtype_bytes(shape.dtype[i]);
    return bytes;
}
static const struct mixer *mixer_of(const struct model *model, size_t layer)
{
    return config_mixer(&model->config, layer);
}

double cost_input(const struct model *model)
{
    return ranks_lowest(&model->ranks) ? 0 : cost_hidden(model);
}
double cost_hidden(const struct model *model)
{
    return model->config.width * element(model);
}
double cost_carry(const struct model *model, size_t layer, size_t chunk)
{
    const struct mixer *mixer = mixer_of(model, layer);
    return pair_bytes(mixer->carry(model, layer).value) * (!mixer->at_borders ? 1 : chunk ? 1 / (double)chunk : 0);
}
double cost_carry_gradient(const struct model *model, size_t layer)
{
    const struct mixer *mixer = mixer_of(model, layer);
    return mixer->at_borders ? 0 : pair_bytes(mixer->carry(model, layer).grad);
}
double cost_sliding_gradient(const struct model *model, size_t layer, size_t context)
{
    size_t window = mixer_of(model, layer)->carry(model, layer).window;
    bool slides = window > 0 && window < context && model->ranks.sequence.size == 1;
    return cost_carry_gradient(model, layer) * (slides ? (double)window / (double)context : 1);
}
// Minimum number of ranks whose keys and values of a layer are resident at once.
static double ranks_at_once(const struct model *model, size_t layer)
{
    double ranks = (double)model->ranks.sequence.size;
    double heads = (double)config_kind(&model->config, layer)->kv_heads;
    bool spread = mixer_of(model, layer)->carries_heads;
    enum exchange exchange = model->ranks.exchange;
    return exchange == EXCHANGE_RING                ? 1
           : exchange == EXCHANGE_GATHER || !spread ? ranks
           : heads < ranks                          ? ranks / heads
                                                    : 1;
}
double cost_layer_carry(const struct model *model, size_t chunk, size_t context)
{
    double min = INFINITY;
    for (size_t l = model->lowest_trained; l < model->config.layers; l++) {
        size_t border = cell_is_whole(model, l) ? 0 : chunk; // a whole cell's states stay within
        double bytes = cost_carry(model, l, border) + (context ? cost_sliding_gradient(model, l, context) : 0);
        min = fmin(min, bytes * ranks_at_once(model, l));
    }
    return min;
}

double cost_choices(const struct model *model)
{
    double words = 0;
    for (size_t l = model->ranks.first_layer; l < model->ranks.end_layer; l++)
        if (config_mlp(&model->config, l)->chooses)
            words += (double)routing_words(&model->config.experts.routing);
    return words * dtype_bytes(DTYPE_I32);
}

double cost_outputs(const struct model *model, size_t layer)
{
    return pair_bytes(mixer_of(model, layer)->outputs(model, layer));
}

// The statistics of a block's norms, what it adds before the second, and the rest.
static double cost_block(const struct model *model, size_t layer, const struct block_kind *kind)
{
    enum norms norms = config_norms(&model->config, layer);
    double statistics = statistic(model) * (model->config.centred ? 2 : 1);
    return (norms != NORMS_AFTER ? statistics : 0) + (norms != NORMS_BEFORE ? statistics + cost_hidden(model) : 0) +
           kind->kept_bytes(model, layer);
}

double cost_cell(const struct model *model, size_t layer)
{
    return (model->config.parallel ? 0 : cost_hidden(model)) +
           cost_block(model, layer, &mixer_of(model, layer)->kind) +
           cost_block(model, layer, &config_mlp(&model->config, layer)->kind);
}
