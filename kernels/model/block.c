#include "kernels/model/block.h"

const struct mixer *config_mixer(const struct config *config, size_t layer)
{
    return mixers[config_kind(config, layer)->mixer];
}

const struct mlp *config_mlp(const struct config *config, size_t layer)
{
    return mlps[config_kind(config, layer)->mlp];
}
bool config_has_states(const struct config *config)
{
    for (size_t l = 0; l < config->layers; l++)
        if (config_mixer(config, l)->at_borders)
            return true;
    return false;
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

static bool has_target(const struct config *c, size_t layer, const struct block_kind *kind, enum lora_target target)
{
    bool found = false;
    for (size_t i = 0; kind->parameters[i].name && !found; i++) {
        const struct block_parameter *p = &kind->parameters[i];
        found = p->target == target && (p->joins || kind->shape(c, layer, i).out > 0);
    }
    return found;
}

bool config_has_target(const struct config *c, size_t layer, enum lora_target target)
{
    return target & (LORA_EMBEDDING | LORA_HEAD) || has_target(c, layer, &config_mixer(c, layer)->kind, target) ||
           has_target(c, layer, &config_mlp(c, layer)->kind, target);
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

bool lora_module_is_own(const struct config *config, size_t target)
{
    unsigned bit = 1u << target;
    bool found = false;
    for (size_t l = 0; l < config->layers && !found; l++)
        found = config_has_target(config, l, (enum lora_target)bit);
    return found && !(bit & (config->fused ? LORA_FUSED_PARTS : LORA_QKV | LORA_GATE_UP));
}
