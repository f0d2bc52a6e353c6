// AdamW: Adam with decoupled weight decay; moments in f32 or bf16, a master copy of the weights in f32, and new
// weights in bf16 rounded to nearest or stochastically.
#include "kernels/transformer/weight_options.h"

struct adamw_options {
    double rate, decay, beta1, beta2, epsilon;
    int form, state;
    struct weight_options weights;
};

static const struct option rows[] = {
    OPTION_RATE(struct adamw_options, 1e-4), OPTION_DECAY(struct adamw_options, 0.01),
    OPTION_BETA1(struct adamw_options),      OPTION_BETA2(struct adamw_options),
    OPTION_EPSILON(struct adamw_options),    OPTION_FORM(struct adamw_options, ADAM_TORCH),
    OPTION_STATE(struct adamw_options),      OPTION_MASTER(struct adamw_options),
    OPTION_ROUND(struct adamw_options),      OPTION_SEED(struct adamw_options),
    OPTION_WHEN(struct adamw_options),       {0}};

enum { FIRST_MOMENT, SECOND_MOMENT, MASTER };

static bool check(const void *options, enum dtype dtype, struct status *status)
{
    return state_check(((const struct adamw_options *)options)->state, dtype, status);
}

static void state(const struct model *model, const struct parameter *p, struct tensor state[PARAMETER_STATES])
{
    const struct adamw_options *options = model->optimizer_options;
    enum dtype dtype = state_dtype(model, options->state);
    state[FIRST_MOMENT] = state[SECOND_MOMENT] = state_shape(p->value.rows, p->value.cols, dtype);
    if (options->weights.master) {
        state[MASTER] = state_shape(p->value.rows, p->value.cols, master_dtype(model));
    }
}

static void update(struct model *model, struct parameter *p)
{
    const struct adamw_options *options = model->optimizer_options;
    const struct adam_step step = {.rate = options->rate * model->update.rate_factor,
                                   .beta1 = options->beta1,
                                   .beta2 = options->beta2,
                                   .epsilon = options->epsilon,
                                   .decay = p->vector ? 0 : options->decay,
                                   .t = model->update.t,
                                   .form = (enum adam_form)options->form,
                                   .rounding = weight_rounding(model, p, &options->weights)};
    master_begin(model, p, p->state[MASTER]);
    op_adamw(model->device, p->value, p->state[MASTER], p->grad, p->state[FIRST_MOMENT], p->state[SECOND_MOMENT],
             &step);
}

const struct optimizer optimizer_adamw = {
    .name = "adamw",
    .summary = "Adam with decoupled weight decay",
    .source = "Loshchilov & Hutter 2019, arXiv 1711.05101",
    .options = {rows, sizeof(struct adamw_options)},
    .check = check,
    .state = state,
    .update = update,
};
