#include "kernels/framework/parameters.h"
#include "kernels/model/block.h"
#include <string.h>

struct value parameters_weight(const struct framework_run *run, const struct parameter *parameter)
{
    return parameter ? run->weights[parameter - run->model->parameters] : (struct value){0};
}

static const struct projection *named(const struct block *block, const struct block_kind *kind, const char *name)
{
    size_t i = 0;
    while (kind->parameters[i].name && strcmp(kind->parameters[i].name, name) != 0)
        i++;
    return kind->parameters[i].name && block->parameters[i].weight ? &block->parameters[i] : NULL;
}

const struct projection *parameters_of_layer(const struct framework_run *run, size_t l, const char *name)
{
    const struct layer *layer = &run->model->layers[l];
    const struct config *config = &run->model->config;
    const struct projection *projection = named(&layer->mixer, &config_mixer(config, l)->kind, name);
    return projection ? projection : named(&layer->mlp, &config_mlp(config, l)->kind, name);
}
