// Lost updates: the part of an optimizer's updates that rounding bf16 weights loses. An update below half a
// weight's spacing, 2^-9 to 2^-8 of it, rounded to nearest, leaves the weight unchanged in every step. Stochastic
// rounding preserves it on average; a master keeps all of it. u: a weight's update before rounding.
#pragma once
#include "kernels/comm/world.h"
#include "kernels/trainer/optimizer.h"

// Sums over the weights of an update.
struct lost_updates {
    double moved, unchanged; // weights with u != 0; those among them with unchanged bits
    double asked, taken;     // sum of u^2; sum of u times the change of the weight, or of its master
};

// Tells whether it can be measured: the optimizer's update leaves unrounded weights in a master, or could.
bool lost_updates_known(const struct optimizer *optimizer);
// An update of a parameter, or of a share, in a bf16 model with such an optimizer, between lost_update_begin and
// lost_update_end, which adds its result to the sums. Bits do not change; needs an f32 copy of the weights on the
// device if there is no master, and up to four f64 copies on the host.
struct lost_update {
    struct device *device;
    struct parameter *parameter;
    double *before, *base; // the values; and those that u is added to
};
// age: of the update (struct update).
void lost_update_begin(struct lost_update *lost, const struct model *model, struct parameter *parameter,
                       size_t age);
void lost_update_end(struct lost_update *lost, struct lost_updates *sums);
// Sums over all ranks. Equal copies of weights count once per rank, in all sums.
void lost_updates_sum(struct lost_updates *sums, const struct world *world);

// The share of weights with an update that did not change, and the lost share of u, 1 - taken / asked; NaN: no
// updates.
double lost_updates_unchanged(const struct lost_updates *sums);
double lost_updates_lost(const struct lost_updates *sums);
