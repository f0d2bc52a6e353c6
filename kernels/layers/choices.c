#include "kernels/layers/choices.h"
#include <string.h>

// Choices of a layer, and the runs of tokens that have some, from the left.
struct layer_choices {
    struct tensor t; // [rows, words] i32; no tensor: a layer without experts, or another rank's
    struct span *runs;
    size_t count;
};
struct choices {
    struct layer_choices *layers;
};

static bool has_experts(const struct model *model, size_t layer)
{
    return config_mlp(&model->config, layer)->chooses;
}

void choices_open(struct model *model, size_t rows)
{
    const struct ranks *ranks = &model->ranks;
    CHECK(!model->choices);
    for (size_t l = ranks->first_layer; l < ranks->end_layer && rows > 0; l++) {
        if (!has_experts(model, l))
            continue;
        if (!model->choices) {
            CHECK(model->choices = calloc(1, sizeof *model->choices));
            CHECK(model->choices->layers = calloc(model->config.layers, sizeof *model->choices->layers));
        }
        model->choices->layers[l].t = tensor_new(model->device, rows, routing_words(&model->config.experts.routing),
                                                 DTYPE_I32, CATEGORY_HIDDEN_CHECKPOINTS);
    }
}

void choices_close(struct model *model)
{
    for (size_t l = model->config.layers; model->choices && l-- > 0;) {
        tensor_free(model->device, &model->choices->layers[l].t);
        free(model->choices->layers[l].runs);
    }
    if (model->choices)
        free(model->choices->layers);
    free(model->choices);
    model->choices = NULL;
}

static size_t end_of(struct span tokens)
{
    return tokens.start + tokens.count;
}

// Adds tokens to the runs; true: they are in one of them. Some of them alone never are.
static bool add(struct layer_choices *layer, struct span tokens)
{
    size_t i = 0;
    while (i < layer->count && end_of(layer->runs[i]) <= tokens.start)
        i++;
    struct span *left = i > 0 ? &layer->runs[i - 1] : NULL, *right = i < layer->count ? &layer->runs[i] : NULL;
    if (right && right->start < end_of(tokens)) {
        CHECK(right->start <= tokens.start && end_of(*right) >= end_of(tokens));
        return true;
    }
    if (left && end_of(*left) == tokens.start) {
        left->count += tokens.count;
    } else if (right && right->start == end_of(tokens)) {
        *right = (struct span){tokens.start, tokens.count + right->count};
    } else {
        CHECK(layer->runs = realloc(layer->runs, (layer->count + 1) * sizeof *layer->runs));
        memmove(layer->runs + i + 1, layer->runs + i, (layer->count++ - i) * sizeof *layer->runs);
        layer->runs[i] = tokens;
    }
    return false;
}

struct cell_at choices_at(struct cell_at at, size_t B, bool claims)
{
    struct layer_choices *layer = at.model->choices ? &at.model->choices->layers[at.layer] : NULL;
    if (layer && layer->t.data) {
        at.choices = tensor_rows(layer->t, at.chunk.start * B, at.chunk.count * B);
        at.chosen = !claims || add(layer, at.chunk);
    }
    return at;
}
