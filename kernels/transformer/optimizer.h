// Optimizer: how weights move along their gradients, and the state that each keeps for it.
// To add one: a file of its own that ends in one `const struct optimizer`, and its name in optimizer.c.
#pragma once
#include "kernels/base/options.h"
#include "kernels/transformer/model.h"

struct optimizer {
    const char *name;
    const char *summary; // one line
    const char *source;
    struct option_table options;
    // Hooks take options of the optimizer's own struct.
    // What the options cannot say alone, of a model in a dtype; NULL: nothing. False sets status.
    bool (*check)(const void *options, const struct config *config, enum dtype dtype, struct status *status);
    // Where what trains is another one in turn: lets that of update model->update.t train (model_train), if it does
    // not yet, and sets model->update.age. The same for the same t, whatever the update before. NULL: all of it
    // does.
    void (*begin)(struct model *model);
    // The shapes and dtypes of the tensors of a parameter's state, of which it knows the meaning; those that it
    // leaves alone are no tensors. NULL: it keeps none.
    void (*state)(const struct model *model, const struct parameter *parameter,
                  struct tensor state[PARAMETER_STATES]);
    // One update of a parameter that trains, by the model's optimizer_options and update.
    void (*update)(struct model *model, struct parameter *parameter);
};

// All optimizers, ending in NULL.
extern const struct optimizer *const optimizers[];
const struct optimizer *optimizer_find(const char *name);

// Whether a unit is updated within the walk, when its gradient is complete, which is then freed: so by the option
// "when". Then there is one micro-batch, and nothing can be made of all gradients together.
bool optimizer_updates_in_walk(const struct optimizer *optimizer, const void *options);

// What the model's optimizer, which it must have, does with the gradients of the walks between the two, of one or
// several micro-batches: update number t, from 1 on, of everything that trains, at the rate of its options times
// rate_factor, which a schedule says.
// To go on from a state that was kept behind update t: optimizer_begin of t, and then the state is that.
void optimizer_begin(struct model *model, size_t t, double rate_factor);
void optimizer_step(struct model *model);
