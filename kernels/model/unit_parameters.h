// Unit parameters: the parameters of each unit, which a step uses together and whose gradients it completes
// together.
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

// Consecutive parameters of the model.
struct parameters {
    struct parameter *items;
    size_t count;
};
struct parameters unit_parameters(const struct model *model, size_t unit);

// Number for the set of the unit's trained parameters and their gradients' sums: equal if these are equal, 0 if
// none trains.
uint64_t unit_training(const struct model *model, size_t unit);

// Whether it is a matrix of a layer, LoRA's factors among them.
bool is_layer_matrix(const struct model *model, const struct parameter *parameter);
