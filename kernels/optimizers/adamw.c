// AdamW: Adam with decoupled weight decay; moments in f32 or bf16, an f32 master copy of the weights, and new bf16
// weights rounded to nearest or stochastically.
#include "kernels/optimizers/adamw.h"

static const struct option rows[] = {
    OPTIONS_ADAMW(1e-4, 0.01, MASTER_NONE), {OPTION_WHEN(struct adamw_options, UPDATE_AT_END)}, {0}};

bool adamw_check(const void *options, const struct config *config, enum dtype dtype, struct status *status)
{
    (void)config;
    return state_check(((const struct adamw_options *)options)->state, dtype, status);
}

void adamw_state(const struct trainer *trainer, const struct parameter *p, struct tensor state[PARAMETER_STATES])
{
    const struct adamw_options *options = trainer->optimizer_options;
    enum dtype dtype = state_dtype(trainer->model, options->state);
    state[FIRST_MOMENT] = state[SECOND_MOMENT] = state_shape(p->value.rows, p->value.cols, dtype);
    if (options->weights.master)
        state[MASTER_STATE] = state_shape(p->value.rows, p->value.cols, master_dtype(trainer->model));
}

struct adam_step adamw_step(const struct trainer *trainer, const struct parameter *p)
{
    const struct adamw_options *options = trainer->optimizer_options;
    return (struct adam_step){.rate = options->rate * trainer->update.rate_factor,
                              .beta1 = options->beta1,
                              .beta2 = options->beta2,
                              .epsilon = options->epsilon,
                              .decay = p->vector ? 0 : options->decay,
                              .t = trainer->update.age,
                              .form = (enum adam_form)options->form,
                              .rounding = weight_rounding(trainer->model, p, &options->weights),
                              .begins = weight_master_begins(p, trainer->update.age)};
}

void adamw_update_aged(struct trainer *trainer, struct parameter *p, double ratio, size_t age)
{
    struct adam_step step = adamw_step(trainer, p);
    step.rate *= ratio;
    step.t = age;
    step.begins = weight_master_begins(p, age);
    op_adamw(trainer->model->device, p->value, weight_master(p), p->grad, p->state[FIRST_MOMENT],
             p->state[SECOND_MOMENT], &step);
}

void adamw_update(struct trainer *trainer, struct parameter *p)
{
    adamw_update_aged(trainer, p, 1, trainer->update.age);
}

const struct optimizer optimizer_adamw = {
    .name = "adamw",
    .summary = "Adam with decoupled weight decay",
    .source = "Loshchilov & Hutter 2019, arXiv 1711.05101",
    .options = {rows, sizeof(struct adamw_options)},
    .by_element = true,
    .check = adamw_check,
    .state = adamw_state,
    .update = adamw_update,
};
