// Rank figures: what each rank of a trial came to, or of its plan, put together.
#pragma once
#include "harness/trial/record_line.h"
#include "kernels/base/world.h"

// What this rank came to.
struct rank_figures rank_figures_of(const struct trial_result *result, double loss);
// all: on rank 0 the figures of every rank; and there samples_ms becomes that of the slowest rank each time.
void rank_figures_gather(const struct world *world, struct rank_figures *all, const struct rank_figures *own,
                         double *samples_ms, size_t sample_count);
// The step's: that of the highest stages, of which each has its sequences'; the others' is 0.
double rank_figures_loss(const struct rank_figures *ranks, size_t count);
// The result's figures of all ranks: the most memory, and what that rank had besides; everyone's work.
void rank_figures_merge(struct trial_result *result, const struct rank_figures *ranks, size_t count);
