#include "kernels/model/flops.h"
#include "kernels/model/unit_parameters.h"

// LoRA's part of a token's work, in weights that multiply: the factors, and modules that are saved whole, whose
// gradients are taken.
struct lora_work {
    double factors, saved;
    size_t lowest; // layers below have nothing that trains, and a backward pass ends with this one
};

static struct lora_work lora_work(const struct config *c, const struct lora *lora)
{
    struct model model;
    struct lora_work work = {0};
    if (!lora->rank)
        return work;
    model_list(&model, c, lora);
    size_t highest = unit_of_layer(c->layers - 1), lowest = highest;
    for (size_t i = 0; i < model.parameter_count; i++) {
        const struct parameter *p = &model.parameters[i];
        if (!model_can_train(&model, p))
            continue;
        size_t unit = unit_of(&model, p);
        lowest = unit < lowest ? unit : lowest;
        bool looked_up = p == model.embedding ? model.head != p : p->transposed; // no product
        const struct routing *routing = &c->experts.routing;
        double share = p->experts ? (double)routing->chosen / (double)p->experts : 1;
        if (!p->vector && !p->filter && !looked_up)
            *(p->saved ? &work.saved : &work.factors) += share * (double)p->size;
    }
    model_close(&model);
    work.lowest = lowest ? lowest - unit_of_layer(0) : 0;
    return work;
}

// FLOPs of one layer's forward, of a token and its weights, and of a sequence besides: as in the layer before, if
// that is of the same kind.
struct layer_flops {
    const struct layer_kind *kind;
    double weights, mixing;
};
static void next_layer(struct layer_flops *last, const struct config *c, size_t layer, const struct batch *batch)
{
    const struct mixer *mixer = config_mixer(c, layer);
    const struct mlp *mlp = config_mlp(c, layer);
    CHECK(mixer && mlp);
    if (last->kind != config_kind(c, layer)) {
        *last = (struct layer_flops){config_kind(c, layer),
                                     block_weights(c, layer, &mixer->kind) + block_weights(c, layer, &mlp->kind),
                                     mixer->flops ? mixer->flops(c, layer, batch) : 0};
    }
}

// of_*: how often a weight, a factor of LoRA and a product of a mixer's are multiplied, in those of a forward.
static double flops(const struct config *c, const struct lora_work *lora, const struct batch *batch,
                    double of_weight, double of_factor, double of_mixing)
{
    double weights = of_weight * (double)c->vocab * (double)c->width, mixing = 0; // per token, per sequence
    struct layer_flops layer = {0};
    for (size_t l = 0; l < c->layers; l++) {
        next_layer(&layer, c, l, batch);
        weights += (l < lora->lowest ? 1 : of_weight) * layer.weights;
        mixing += (l < lora->lowest ? 1 : of_mixing) * layer.mixing;
    }
    double factors = of_factor * lora->factors + (of_factor > 1 ? lora->saved : 0);
    return (double)batch->batch * ((double)batch->context * (2 * weights + 2 * factors) + mixing);
}

double model_forward_flops(const struct config *c, const struct lora *lora, const struct batch *batch)
{
    struct lora_work work = lora_work(c, lora);
    work.lowest = 0;
    return flops(c, &work, batch, 1, 1, 1);
}

double model_flops(const struct config *c, const struct lora *lora, const struct batch *batch)
{
    struct lora_work work = lora_work(c, lora);
    return flops(c, &work, batch, lora->rank ? 2 : 3, 3, 3); // a frozen weight has no gradient of its own
}
