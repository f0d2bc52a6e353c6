// Ranks' choices: the experts that tokens take, of all ranks' tokens and layers.
#pragma once
#include "harness/spec/trial.h"
#include "kernels/comm/world.h"
#include "kernels/layers/choices.h"

// Collects on rank 0 what each rank's step has taken, in the rows of one rank that has all: that of token t and
// sequence b is t times the trial's batch plus b. On other ranks, and unless every token has a choice in every
// layer with experts, `all` is not whole. sequences: this rank's rows of the trial. Call it on every rank; release
// with kept_choices_free.
void ranks_choices(struct kept_choices *all, const struct kept_choices *own, const struct trial *trial,
                   const struct batch *batch, struct row_range sequences, const struct world *world);
