#include "kernels/transformer/optimizer.h"

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

void optimizer_step(struct model *model, const struct optimizer_settings *settings, size_t t)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        if (model->parameters[i].grad.data) {
            model->optimizer->update(model->device, &model->parameters[i], settings, t);
        }
    }
}
