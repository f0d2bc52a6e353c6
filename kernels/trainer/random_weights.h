// Random weights: values of a model's parameters determined by name and seed, the same bits everywhere. Linear
// weights N(0, 1/in), embedding N(0, 1/width), gains N(1, 0.1^2), biases N(0, 0.02^2), LoRA A N(0, 1/in), B N(0,
// 0.02^2): no gradient is trivially zero.
#pragma once
#include "kernels/model/model.h"

// Sets all weights of the rank on the device, first rounded to `rounding` (so that an f64 reference can hold an f32
// model's weights).
void random_weights_set(struct model *model, uint64_t seed, enum dtype rounding);
// Sets one parameter.
void random_weights_set_one(struct model *model, struct parameter *parameter, uint64_t seed, enum dtype rounding);
// The same values on the host: `count` of the parameter's rows * cols numbers, from `first` on.
void random_weights_values(const struct parameter *parameter, uint64_t seed, enum dtype rounding, size_t first,
                           size_t count, double *values);
