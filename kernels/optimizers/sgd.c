// SGD with momentum and weight decay as in torch.optim.SGD, or decoupled decay.
#include "kernels/trainer/trainer.h"
#include "kernels/trainer/weight_options.h"

struct sgd_options {
    double rate, decay, momentum;
    int coupling, state;
    struct weight_options weights;
};
enum { COUPLED, DECOUPLED };

static const struct option rows[] = {{OPTION_RATE(struct sgd_options, 1e-2)},
                                     {OPTION_DECAY(struct sgd_options, 0)},
                                     {OPTION("coupling", CHOICE, struct sgd_options, coupling),
                                      .choices = OPTION_CHOICES("coupled", "decoupled"),
                                      .help = "decay as a part of the gradient, or of the step alone"},
                                     {OPTION("momentum", NUMBER, struct sgd_options, momentum),
                                      .maximum = 0.9999999, .help = "decay of the sum of gradients; 0: no state"},
                                     {OPTION_STATE(struct sgd_options)},
                                     {OPTION_MASTER(struct sgd_options, MASTER_NONE)},
                                     {OPTION_ROUND(struct sgd_options)},
                                     {OPTION_SEED(struct sgd_options)},
                                     {OPTION_WHEN(struct sgd_options, UPDATE_AT_END)},
                                     {0}};

enum { MOMENTUM };

static bool check(const void *of_optimizer, const struct config *config, enum dtype dtype, struct status *status)
{
    const struct sgd_options *options = of_optimizer;
    (void)config;
    if (options->momentum == 0 && options->state != STATE_AS_GRADIENT) {
        return status_set(status, STATUS_BAD_INPUT,
                          "state requires momentum > 0; leave it out, or give \"momentum\"");
    }
    if (options->decay == 0 && options->coupling == DECOUPLED)
        return status_set(status, STATUS_BAD_INPUT, "coupling requires decay > 0; leave it out, or give \"decay\"");
    return state_check(options->state, dtype, status);
}

static void state(const struct trainer *trainer, const struct parameter *p, struct tensor state[PARAMETER_STATES])
{
    const struct sgd_options *options = trainer->optimizer_options;
    if (options->momentum > 0)
        state[MOMENTUM] = state_shape(p->value.rows, p->value.cols, state_dtype(trainer->model, options->state));
    if (options->weights.master)
        state[MASTER_STATE] = state_shape(p->value.rows, p->value.cols, master_dtype(trainer->model));
}

static void update(struct trainer *trainer, struct parameter *p)
{
    const struct sgd_options *options = trainer->optimizer_options;
    const struct sgd_step step = {.rate = options->rate * trainer->update.rate_factor,
                                  .momentum = options->momentum,
                                  .decay = p->vector ? 0 : options->decay,
                                  .decoupled = options->coupling == DECOUPLED,
                                  .rounding = weight_rounding(trainer->model, p, &options->weights),
                                  .begins = weight_master_begins(p, trainer->update.age)};
    op_sgd(trainer->model->device, p->value, weight_master(p), p->grad, p->state[MOMENTUM], &step);
}

const struct optimizer optimizer_sgd = {
    .name = "sgd",
    .summary = "stochastic gradient descent, with optional momentum",
    .source = "Sutskever et al. 2013, as torch.optim.SGD",
    .options = {rows, sizeof(struct sgd_options)},
    .by_element = true,
    .check = check,
    .state = state,
    .update = update,
};
