#include "kernels/model/unit_parameters.h"

size_t unit_of_layer(size_t layer)
{
    return layer + 1;
}

size_t unit_of_head(const struct model *model)
{
    return model->config.layers + 1;
}

size_t unit_count(const struct model *model)
{
    return model->config.layers + 2;
}

static struct parameter *first_of(const struct model *model, size_t unit)
{
    return unit == UNIT_EMBEDDING        ? model->embedding
           : unit < unit_of_head(model)  ? model->layers[unit - unit_of_layer(0)].first
           : unit == unit_of_head(model) ? model->final_norm
                                         : model->parameters + model->parameter_count;
}

size_t unit_of(const struct model *model, const struct parameter *parameter)
{
    size_t unit = 0;
    while (parameter >= first_of(model, unit + 1))
        unit++;
    return unit;
}

struct parameters unit_parameters(const struct model *model, size_t unit)
{
    struct parameter *first = first_of(model, unit);
    return (struct parameters){first, (size_t)(first_of(model, unit + 1) - first)};
}

uint64_t unit_training(const struct model *model, size_t unit)
{
    struct parameters parameters = unit_parameters(model, unit);
    uint64_t training = 0xcbf29ce484222325; // FNV-1a, over all parameters
    bool any = false;
    for (size_t i = 0; i < parameters.count; i++) {
        const struct parameter *p = &parameters.items[i];
        training = (training ^ (uint64_t)(p->trains + 2 * p->projected)) * 0x100000001b3;
        any |= p->trains || p->projected;
    }
    return any ? training | 1 : 0;
}

bool is_layer_matrix(const struct model *model, const struct parameter *p)
{
    return !p->vector && !p->filter && p > model->embedding && p < model->final_norm;
}
