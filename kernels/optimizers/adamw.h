// AdamW's options, state and update, for optimizers that use AdamW on a part of the model.
#pragma once
#include "kernels/trainer/trainer.h"
#include "kernels/trainer/weight_options.h"

struct adamw_options {
    double rate, decay, beta1, beta2, epsilon;
    int form, state;
    struct weight_options weights;
};

// Rows for adamw_options, or for a struct that begins with one.
#define OPTIONS_ADAMW(standard_rate, standard_decay, standard_master)                                              \
    {OPTION_RATE(struct adamw_options, standard_rate)}, {OPTION_DECAY(struct adamw_options, standard_decay)},      \
        {OPTION_BETA1(struct adamw_options)}, {OPTION_BETA2(struct adamw_options)},                                \
        {OPTION_EPSILON(struct adamw_options)}, {OPTION_FORM(struct adamw_options, ADAM_TORCH)},                   \
        {OPTION_STATE(struct adamw_options)}, {OPTION_MASTER(struct adamw_options, standard_master)},              \
        {OPTION_ROUND(struct adamw_options)},                                                                      \
    {                                                                                                              \
        OPTION_SEED(struct adamw_options)                                                                          \
    }

// Indices in a parameter's state, also if moments are stored differently.
enum { FIRST_MOMENT, SECOND_MOMENT };

// The current update of a parameter; the model's optimizer_options begin with struct adamw_options.
struct adam_step adamw_step(const struct trainer *trainer, const struct parameter *parameter);
// Hooks of struct optimizer for such a model.
bool adamw_check(const void *options, const struct config *config, enum dtype dtype, struct status *status);
void adamw_state(const struct trainer *trainer, const struct parameter *parameter,
                 struct tensor state[PARAMETER_STATES]);
void adamw_update(struct trainer *trainer, struct parameter *parameter);
// adamw_update at the rate times ratio, for a parameter whose state has seen `age` updates, including this one.
void adamw_update_aged(struct trainer *trainer, struct parameter *parameter, double ratio, size_t age);
