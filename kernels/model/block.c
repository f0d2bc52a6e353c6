#include "kernels/model/block.h"
#include <stdio.h>

const struct mixer *config_mixer(const struct config *config, size_t layer)
{
    return mixers[config_kind(config, layer)->mixer];
}

const struct mlp *config_mlp(const struct config *config, size_t layer)
{
    return mlps[config_kind(config, layer)->mlp];
}

static bool check_kind(const struct config *c, const struct layer_kind *kind, struct status *status)
{
    const struct mixer *mixer = mixers[kind->mixer];
    if (!config_check_size("heads", kind->heads, CONFIG_SIZE_MAX, status) ||
        !config_check_size("kv_heads", kind->kv_heads, CONFIG_SIZE_MAX, status) ||
        !config_check_size("head_dim", kind->head_dim, CONFIG_SIZE_MAX, status))
        return false;
    if (kind->heads % kind->kv_heads) {
        return status_set(status, STATUS_BAD_INPUT, "heads must be a multiple of kv_heads, found %zu and %zu",
                          kind->heads, kind->kv_heads);
    }
    const struct mlp *mlp = mlps[kind->mlp];
    return (!mixer->check || mixer->check(c, kind, status)) && (!mlp->check || mlp->check(c, status));
}

bool config_check(const struct config *c, struct status *status)
{
    if (!config_check_size("layers", c->layers, 10000, status) ||
        !config_check_size("width", c->width, CONFIG_SIZE_MAX, status) ||
        (c->ffn > 0 && !config_check_size("ffn", c->ffn, CONFIG_SIZE_MAX, status)) ||
        !config_check_size("vocab", c->vocab, CONFIG_SIZE_MAX, status))
        return false;
    for (size_t k = 0; k < CONFIG_KINDS; k++)
        if (config_has_kind(c, k) && !check_kind(c, &c->kinds[k], status))
            return false;
    for (size_t k = 0; k < CONFIG_KINDS; k++)
        if (config_has_kind(c, k) && c->kinds[k].chunked && c->kinds[k].window != config_chunk(c))
            return status_set(status, STATUS_BAD_INPUT, "layers with chunked attention must have one window");
    if (c->whole_qk_norm && !c->qk_norm)
        return status_set(status, STATUS_BAD_INPUT, "whole_qk_norm requires qk_norm");
    if (c->parallel && c->norms != NORMS_BEFORE)
        return status_set(status, STATUS_BAD_INPUT, "parallel layers require norms before their blocks");
    return config_check_number("logit_cap", c->logit_cap, false, status) &&
           config_check_number("embedding_scale", c->embedding_scale, false, status) &&
           config_check_number("norm_epsilon", c->norm_epsilon, true, status);
}

const struct layer_kind *config_full_kind(const struct config *c)
{
    for (size_t l = 0; l < c->layers; l++)
        if (config_kind(c, l)->window == 0 && !config_mixer(c, l)->at_borders)
            return config_kind(c, l);
    return &c->kinds[0];
}

bool config_has_states(const struct config *config)
{
    for (size_t l = 0; l < config->layers; l++)
        if (config_mixer(config, l)->at_borders)
            return true;
    return false;
}

double block_weights(const struct config *c, size_t layer, const struct block_kind *kind)
{
    double weights = 0;
    if (kind->weights)
        return kind->weights(c, layer);
    for (size_t i = 0; kind->parameters[i].name; i++) {
        struct block_shape shape = kind->shape(c, layer, i);
        weights += kind->parameters[i].form == FORM_MODULE ? (double)shape.out * (double)shape.in : 0;
    }
    return weights;
}

// active: of a token's experts alone.
static size_t block_parameters(const struct config *c, size_t layer, const struct block_kind *kind, bool active)
{
    const struct routing *routing = &c->experts.routing;
    size_t count = 0;
    for (size_t i = 0; kind->parameters[i].name; i++) {
        struct block_shape shape = kind->shape(c, layer, i);
        if (active && kind->parameters[i].form == FORM_EXPERTS)
            shape.out = shape.out / routing->experts * routing->chosen;
        count += shape.out * (shape.in ? shape.in : 1) + (shape.bias ? shape.out : 0);
    }
    return count;
}

// NULL: the block has no such module.
static const char *module_of(const struct config *c, size_t layer, const struct block_kind *kind, unsigned target)
{
    const char *found = NULL;
    for (size_t i = 0; kind->parameters[i].name && !found; i++) {
        const struct block_parameter *p = &kind->parameters[i];
        if (p->target == target && (p->joins || kind->shape(c, layer, i).out > 0))
            found = p->name;
    }
    return found;
}

static const char *layer_module(const struct config *c, size_t layer, unsigned target)
{
    const char *of_mixer = module_of(c, layer, &config_mixer(c, layer)->kind, target);
    return of_mixer ? of_mixer : module_of(c, layer, &config_mlp(c, layer)->kind, target);
}

bool config_has_target(const struct config *c, size_t layer, enum lora_target target)
{
    return target & (LORA_EMBEDDING | LORA_HEAD) || layer_module(c, layer, target);
}

void lora_module_name(char *name, size_t bytes, const struct config *config, size_t layer, size_t target)
{
    if (1u << target == LORA_HEAD)
        snprintf(name, bytes, "%s", lora_module_leaf(target));
    else if (1u << target == LORA_EMBEDDING)
        snprintf(name, bytes, "model.%s", lora_module_leaf(target));
    else
        snprintf(name, bytes, "model.layers.%zu.%s%s", layer, layer_module(config, layer, 1u << target),
                 1u << target == LORA_ROUTER ? ".weight" : "");
}

static size_t count_parameters(const struct config *c, bool active)
{
    size_t count = c->width + c->vocab * c->width * (c->tied ? 1 : 2);
    for (size_t l = 0; l < c->layers; l++) {
        size_t norms = c->parallel ? 1 : config_norms(c, l) == NORMS_AROUND ? 4 : 2;
        count += block_parameters(c, l, &config_mixer(c, l)->kind, active) +
                 block_parameters(c, l, &config_mlp(c, l)->kind, active) + norms * c->width + c->layer_scalars;
    }
    return count;
}

size_t config_parameters(const struct config *c)
{
    return count_parameters(c, false);
}

size_t config_active_parameters(const struct config *c)
{
    return count_parameters(c, true);
}

bool lora_module_is_own(const struct config *config, size_t target)
{
    unsigned bit = 1u << target;
    bool found = false;
    for (size_t l = 0; l < config->layers && !found; l++)
        found = config_has_target(config, l, (enum lora_target)bit);
    return found && !(bit & (config->fused ? LORA_FUSED_PARTS : LORA_QKV | LORA_GATE_UP));
}
