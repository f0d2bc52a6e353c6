// Optimizer step: the updates of a model's optimizer, and whose turn it is where layers train by turns.
#pragma once
#include "kernels/transformer/model.h"
#include "kernels/transformer/optimizer.h"

// What the model's optimizer, which it must have, does with the gradients of the walks between the two, of one or
// several micro-batches: update number t, from 1 on, of everything that trains, at the rate of its options times
// rate_factor, which a schedule says.
// To go on from a state that was kept after update t: optimizer_begin of t, and then the state is that.
void optimizer_begin(struct model *model, size_t t, double rate_factor);
void optimizer_step(struct model *model);

// Of one step that is taken again and again, in place of optimizer_begin: whose turn it is stays.
void optimizer_begin_again(struct model *model, size_t t, double rate_factor);
// Lets layers train by turns, of which the first is this one's.
void optimizer_give_turn(struct model *model, size_t layer);
// The lowest layers, upwards and at most `most`, that have a turn within the first so many updates (0: any number).
// Returns how many they are; none where all trains together.
size_t optimizer_lowest_turns(const struct optimizer *optimizer, const void *options, const struct config *config,
                              size_t updates, size_t layers[], size_t most);
