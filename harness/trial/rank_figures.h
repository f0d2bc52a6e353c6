// Rank figures: memory and work of a step on one rank, or on all ranks of a trial, put together.
#pragma once
#include "kernels/base/world.h"

// Zeroed: not reached.
struct rank_figures {
    size_t peak_bytes, resident_bytes, peak_by_category[CATEGORY_COUNT];
    size_t host_peak_bytes, host_peak_by_category[CATEGORY_COUNT];
    double floor_bytes_per_token, loss;
    double tokens; // of all rows that a step walks
    struct counters counters;
    double idle_share; // of a step, that it waits for others, by the links; NaN: not known
};

// all: on rank 0 the figures of every rank; and there samples_ms becomes that of the slowest rank each time.
void rank_figures_gather(const struct world *world, struct rank_figures *all, const struct rank_figures *own,
                         double *samples_ms, size_t sample_count);
// Those of all ranks: the most memory, and what that rank had besides; everyone's work. The loss is the step's:
// that of the highest stages, of which each has its sequences'; the others' is 0.
struct rank_figures rank_figures_merge(const struct rank_figures *ranks, size_t count);
