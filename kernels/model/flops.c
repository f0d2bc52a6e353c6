#include "kernels/model/flops.h"
#include "kernels/model/unit_parameters.h"

// Pairs of a query and a key that it sees, per sequence. window 0: none.
static double pairs_seen(const struct batch *batch, size_t window)
{
    size_t T = batch->context, max = window && window < T ? window : T;
    double pairs = (double)max * (max + 1) / 2 + (double)(T - max) * max;
    for (size_t row = 0; batch->starts && row < T * batch->batch; row++) {
        size_t start = (size_t)batch->starts[row], seen = row / batch->batch + 1 - start; // of the document
        seen += batch->prefixes && start > 0 ? (size_t)batch->prefixes[row % batch->batch] : 0;
        pairs = (row ? pairs : 0) + (double)(seen < max ? seen : max);
    }
    return batch->starts ? pairs / (double)batch->batch : pairs;
}

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
        if (!p->vector && !looked_up)
            *(p->saved ? &work.saved : &work.factors) += (double)p->size;
    }
    model_close(&model);
    work.lowest = lowest ? lowest - unit_of_layer(0) : 0;
    return work;
}

// of_*: how often a weight, a factor of LoRA and a pair of attention are multiplied, in those of a forward.
static double flops(const struct config *c, const struct lora_work *lora, const struct batch *batch,
                    double of_weight, double of_factor, double of_attention)
{
    size_t context = batch->context;
    double q = (double)c->heads * c->head_dim, kv = (double)c->kv_heads * c->head_dim;
    double layer = 2 * c->width * q + 2 * c->width * kv + 3.0 * c->width * c->ffn;
    double weights = (double)c->vocab * c->width + c->layers * layer; // per token
    double whole = 0, windows = 0;                                    // layers without a window and with one
    for (size_t l = 0; l < c->layers; l++)
        *(config_window(c, l) ? &windows : &whole) += l < lora->lowest ? 1 / of_attention : 1;
    weights -= (double)lora->lowest * layer * (1 - 1 / of_weight);
    double attention = of_attention * 4 * pairs_seen(batch, 0) * q * whole;
    if (windows > 0)
        attention += of_attention * 4 * pairs_seen(batch, c->sliding_window) * q * windows;
    double factors = of_factor * lora->factors + (of_factor > 1 ? lora->saved : 0);
    return batch->batch * (context * (2 * of_weight * weights + 2 * factors) + attention);
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
