// Optimizer: how weights move along their gradients, and the state that each keeps for it.
// To add one: its update and its options in optimizer.c (or a file of its own) and its entry in the array.
#pragma once
#include "kernels/base/options.h"
#include "kernels/transformer/model.h"

struct optimizer {
    const char *name;
    const char *summary; // one line
    const char *source;
    struct option_table options;
    size_t states; // tensors of a parameter's state, each as its gradient; at most PARAMETER_STATES
    // One update of a parameter that trains, by the model's optimizer_options and update.
    void (*update)(struct model *model, struct parameter *parameter);
};

// All optimizers, ending in NULL.
extern const struct optimizer *const optimizers[];
const struct optimizer *optimizer_find(const char *name);

// What the model's optimizer, which it must have, does with the gradients of the walks between the two, of one or
// several micro-batches: update number t, from 1 on, of everything that trains, at the rate of its options times
// rate_factor, which a schedule says.
void optimizer_begin(struct model *model, size_t t, double rate_factor);
void optimizer_step(struct model *model);
