#include "kernels/transformer/optimizer.h"
#include "kernels/transformer/training.h"
#include <string.h>

struct adamw_options {
    double rate, decay;
};

static const struct option adamw_rows[] = {{.name = "rate",
                                            .type = OPTION_NUMBER,
                                            .offset = offsetof(struct adamw_options, rate),
                                            .maximum = 1e6,
                                            .initial = 1e-4,
                                            .help = "learning rate"},
                                           {.name = "decay",
                                            .type = OPTION_NUMBER,
                                            .offset = offsetof(struct adamw_options, decay),
                                            .maximum = 1e6,
                                            .initial = 0.01,
                                            .help = "weight decay of matrices, not of gains and biases"},
                                           {0}};

static void adamw(struct model *model, struct parameter *p)
{
    const struct adamw_options *options = model->optimizer_options;
    op_adamw(model->device, p->value, p->grad, p->state[0], p->state[1], options->rate * model->update.rate_factor,
             0.9, 0.999, 1e-8, p->vector ? 0 : options->decay, model->update.t);
}

static const struct optimizer optimizer_adamw = {
    .name = "adamw",
    .summary = "Adam with decoupled weight decay",
    .source = "Loshchilov & Hutter 2019, arXiv 1711.05101",
    .options = {adamw_rows, sizeof(struct adamw_options)},
    .states = 2,
    .update = adamw,
};

const struct optimizer *const optimizers[] = {&optimizer_adamw, NULL};

const struct optimizer *optimizer_find(const char *name)
{
    for (const struct optimizer *const *o = optimizers; *o; o++) {
        if (strcmp((*o)->name, name) == 0) {
            return *o;
        }
    }
    return NULL;
}

void optimizer_begin(struct model *model, size_t t, double rate_factor)
{
    model->update = (struct update){.t = t, .rate_factor = rate_factor};
}

void optimizer_step(struct model *model)
{
    training_update(model, model->optimizer->update);
}
