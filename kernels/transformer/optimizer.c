#include "kernels/transformer/optimizer.h"
#include "kernels/transformer/training.h"

static void adamw(struct device *device, struct parameter *p, const struct optimizer_settings *settings, size_t t)
{
    op_adamw(device, p->value, p->grad, p->state[0], p->state[1], settings->rate, 0.9, 0.999, 1e-8,
             p->vector ? 0 : settings->decay, t);
}

static const struct optimizer optimizer_adamw = {
    .name = "adamw",
    .source = "Loshchilov & Hutter 2019",
    .initial = {.rate = 1e-4, .decay = 0.01},
    .states = 2,
    .update = adamw,
};

const struct optimizer *const optimizers[] = {&optimizer_adamw, NULL};

struct update {
    const struct optimizer_settings *settings;
    size_t t;
};

static void update(struct model *model, struct parameter *p, void *context)
{
    const struct update *update = context;
    model->optimizer->update(model->device, p, update->settings, update->t);
}

void optimizer_step(struct model *model, const struct optimizer_settings *settings, size_t t)
{
    struct update context = {settings, t};
    training_update(model, update, &context);
}
