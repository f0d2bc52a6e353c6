// Ranks: a trial over several processes, or its plan: which trials can have ranks, what each came to, put together,
// and their gradients, gathered.
#pragma once
#include "harness/run/gradient_error.h"
#include "harness/run/record_line.h"
#include "kernels/base/world.h"

// Whether the method, the model and the device can be shared by as many ranks as the trial asks for. False and a
// status (unsupported) that says why not.
bool ranks_possible(const struct trial *trial, struct status *status);
// What this rank came to.
struct rank_figures rank_figures_of(const struct trial_result *result, double loss);
// all: on rank 0 the figures of every rank; and there samples_ms becomes that of the slowest rank each time.
void ranks_gather(const struct world *world, struct rank_figures *all, const struct rank_figures *own,
                  double *samples_ms, size_t sample_count);
// The step's: the highest rank's, the others' is 0.
double ranks_loss(const struct rank_figures *ranks, size_t count);
// The result's figures of all ranks: the most memory, and what that rank had besides; everyone's work.
void ranks_merge(struct trial_result *result, const struct rank_figures *ranks, size_t count);
// The gradients of all ranks' parts, on rank 0; on others an empty set. Release with gradient_set_free.
void ranks_gradients(struct gradient_set *set, const struct model *model, size_t context,
                     const struct world *world);
