// Adam with moments in 8 bits, for optimizers that are it on tensors of their own.
#pragma once
#include "kernels/trainer/trainer.h"
#include "kernels/trainer/weight_options.h"

enum { ADAM8BIT_STATES = 4 };

// The moments, and their scales, of a tensor of so many rows and columns, which is all or some of one of `whole`
// elements; no scales: they are not in 8 bits, for that is small.
void adam8bit_shape(const struct trainer *trainer, struct tensor of, size_t whole,
                    struct tensor state[ADAM8BIT_STATES]);
// w moves by a step of them.
void adam8bit_move(struct device *device, struct tensor w, struct tensor grad,
                   const struct tensor state[ADAM8BIT_STATES], const struct adam_step *step);
