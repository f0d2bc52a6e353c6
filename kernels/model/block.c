#include "kernels/model/block.h"

const struct mixer *config_mixer(const struct config *config, size_t layer)
{
    return mixers[config_kind(config, layer)->mixer];
}

const struct mlp *config_mlp(const struct config *config, size_t layer)
{
    return mlps[config_kind(config, layer)->mlp];
}

static size_t block_parameters(const struct config *c, size_t layer, const struct block_kind *kind)
{
    size_t count = 0;
    for (size_t i = 0; kind->parameters[i].name; i++) {
        struct block_shape shape = kind->shape(c, layer, i);
        count += shape.out * (shape.in ? shape.in : 1) + (shape.bias ? shape.out : 0);
    }
    return count;
}

size_t config_parameters(const struct config *c)
{
    size_t count = c->width + c->vocab * c->width * (c->tied ? 1 : 2);
    for (size_t l = 0; l < c->layers; l++) {
        count += block_parameters(c, l, &config_mixer(c, l)->kind) +
                 block_parameters(c, l, &config_mlp(c, l)->kind) + (c->norms == NORMS_AROUND ? 4 : 2) * c->width;
    }
    return count;
}
