// Optimizer: how weights move along their gradients, and the state that each keeps for it.
// To add one: its update in optimizer.c (or a file of its own) and its entry in the array.
#pragma once
#include "kernels/transformer/model.h"

struct optimizer_settings {
    double rate, decay; // decay: of matrices alone, not of gains and biases
};

struct optimizer {
    const char *name;
    const char *source;
    struct optimizer_settings initial; // defaults
    size_t states; // tensors of a parameter's state, each as its gradient; at most PARAMETER_STATES
    // One update of a parameter that trains; t counts from 1.
    void (*update)(struct device *device, struct parameter *parameter, const struct optimizer_settings *settings,
                   size_t t);
};

// All optimizers, ending in NULL.
extern const struct optimizer *const optimizers[];
// Updates everything that trains with the model's optimizer, which it must have; t counts from 1.
void optimizer_step(struct model *model, const struct optimizer_settings *settings, size_t t);
