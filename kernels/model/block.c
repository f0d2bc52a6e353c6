#include "kernels/model/block.h"

static size_t kind_of(const uint8_t *kinds, size_t layer)
{
    return kinds[layer < CONFIG_KINDS ? layer : CONFIG_KINDS - 1];
}

const struct mixer *config_mixer(const struct config *config, size_t layer)
{
    return mixers[kind_of(config->mixers, layer)];
}

const struct mlp *config_mlp(const struct config *config, size_t layer)
{
    return mlps[kind_of(config->mlps, layer)];
}

static size_t block_parameters(const struct config *c, const struct block_kind *kind)
{
    size_t count = 0;
    for (size_t i = 0; kind->parameters[i].name; i++) {
        struct block_shape shape = kind->shape(c, i);
        count += shape.out * (shape.in ? shape.in : 1) + (shape.bias ? shape.out : 0);
    }
    return count;
}

size_t config_parameters(const struct config *c)
{
    size_t count = c->width + c->vocab * c->width * (c->tied ? 1 : 2);
    for (size_t l = 0; l < c->layers; l++) {
        count += block_parameters(c, &config_mixer(c, l)->kind) + block_parameters(c, &config_mlp(c, l)->kind) +
                 (c->norms == NORMS_AROUND ? 4 : 2) * c->width;
    }
    return count;
}
