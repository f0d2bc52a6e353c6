// Adam with 8-bit moments, for optimizers that apply it to tensors of their own.
#pragma once
#include "kernels/trainer/trainer.h"
#include "kernels/trainer/weight_options.h"

enum { ADAM8BIT_STATES = 4 };

// Shapes of the moments and their scales for a tensor, which is all or part of one of `whole` elements; without
// scales: too small for 8 bits.
void adam8bit_shape(const struct trainer *trainer, struct tensor of, size_t whole,
                    struct tensor state[ADAM8BIT_STATES]);
// Updates w by a step.
void adam8bit_move(struct device *device, struct tensor w, struct tensor grad,
                   const struct tensor state[ADAM8BIT_STATES], const struct adam_step *step);
