// Lost updates: how much of what an optimizer moves weights in bf16 by gets into them. Less than half of a weight's
// spacing, 2^-9 to 2^-8 of it, rounded to nearest, leaves it as it was, in every step anew. Rounded stochastically
// it gets there in the mean; a master takes all of it. u: what a weight is moved by, before it is rounded.
#pragma once
#include "kernels/comm/world.h"
#include "kernels/trainer/optimizer.h"

// Sums over the weights of an update.
struct lost_updates {
    double moved, unchanged; // weights with a u that is not 0; those of them that have the bits that they had
    double asked, taken;     // of u^2; of u times what the weight changed by, or its master, if it has one
};

// Whether it is known of an optimizer: whether an update of its leaves weights before they are rounded in a master,
// or could.
bool lost_updates_known(const struct optimizer *optimizer);
// The update of a parameter, or of a share of one, of a model in bf16 with such an optimizer, between
// lost_update_begin and lost_update_end, which adds what came of it to the sums. The same bits; takes a copy of the
// weights in f32 on the device where there is no master, and up to four in f64 on the host.
struct lost_update {
    struct device *device;
    struct parameter *parameter;
    double *before, *base; // the values; and those that u is added to
};
// age: of the update (struct update).
void lost_update_begin(struct lost_update *lost, const struct model *model, struct parameter *parameter,
                       size_t age);
void lost_update_end(struct lost_update *lost, struct lost_updates *sums);
// Adds up all ranks' sums. Weights that several ranks have alike count as often, in all sums.
void lost_updates_sum(struct lost_updates *sums, const struct world *world);

// The share of weights with a u that stayed as they were, and of u that was lost, 1 - taken / asked; NaN: nothing
// was to move.
double lost_updates_unchanged(const struct lost_updates *sums);
double lost_updates_lost(const struct lost_updates *sums);
