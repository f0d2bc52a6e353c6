#include "kernels/transformer/optimizer_step.h"
#include "kernels/transformer/training.h"
#include <stdlib.h>

// Updates of a turn.
static size_t interval_of(const struct optimizer *optimizer, const void *options)
{
    return options_count(&optimizer->options, options, "interval", 1);
}

static void take_turn(struct model *model, size_t number, size_t layer)
{
    struct turn now = model->turn;
    if (!now.taken || now.number != number || now.layer != layer) {
        model->turn = (struct turn){.taken = true, .number = number, .layer = layer};
        model_train(model);
        if (model->optimizer->turned) {
            model->optimizer->turned(model);
        }
    }
}

void optimizer_give_turn(struct model *model, size_t layer)
{
    take_turn(model, 0, layer);
}

void optimizer_begin(struct model *model, size_t t, double rate_factor)
{
    const struct optimizer *optimizer = model->optimizer;
    size_t age = t;
    if (optimizer->turn) {
        size_t interval = interval_of(optimizer, model->optimizer_options), number = (t - 1) / interval;
        take_turn(model, number, optimizer->turn(model->optimizer_options, &model->config, number));
        age = (t - 1) % interval + 1;
    }
    model->update = (struct update){.t = t, .age = age, .rate_factor = rate_factor};
}

void optimizer_begin_again(struct model *model, size_t t, double rate_factor)
{
    model->update = (struct update){.t = t, .age = t, .rate_factor = rate_factor};
}

void optimizer_step(struct model *model)
{
    if (!model->updates_in_walk) {
        training_update(model);
    }
    model->update = (struct update){0};
}

size_t optimizer_lowest_turns(const struct optimizer *optimizer, const void *options, const struct config *config,
                              size_t updates, size_t layers[], size_t most)
{
    size_t found = 0, turns = config->layers;
    if (!optimizer->turn) {
        return 0;
    }
    if (updates) {
        size_t interval = interval_of(optimizer, options), begun = updates / interval + (updates % interval > 0);
        turns = begun < turns ? begun : turns;
    }
    bool *has = calloc(config->layers, sizeof *has);
    CHECK(has);
    for (size_t number = 0; number < turns; number++) {
        has[optimizer->turn(options, config, number)] = true;
    }
    for (size_t l = 0; l < config->layers && found < most; l++) {
        if (has[l]) {
            layers[found++] = l;
        }
    }
    free(has);
    return found;
}
