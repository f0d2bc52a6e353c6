// Unit parameters: which of a model's parameters a walk uses together and completes the gradient of together.
#pragma once
#include "kernels/model/model.h"

// From the bottom up: the embedding, the layers, and the head with the norm before it. The table of a tied head is
// the embedding's.
enum { UNIT_EMBEDDING };
size_t unit_of_layer(size_t layer);
size_t unit_of_head(const struct model *model);
size_t unit_count(const struct model *model);

// The unit of a parameter of the model's.
size_t unit_of(const struct model *model, const struct parameter *parameter);

// Consecutive in the order of the model's.
struct parameters {
    struct parameter *items;
    size_t count;
};
struct parameters unit_parameters(const struct model *model, size_t unit);

// A number for which of the unit's parameters train and how their gradients are summed: equal where these are, 0 if
// none trains.
uint64_t unit_training(const struct model *model, size_t unit);

// Whether it is a matrix of a layer, LoRA's factors among them.
bool is_layer_matrix(const struct model *model, const struct parameter *parameter);
