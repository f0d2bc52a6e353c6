// Ranks: starts a trial over several processes, assigns their devices and collects their gradients.
#pragma once
#include "harness/spec/trial.h"
#include "harness/step/gradient_error.h"
#include "kernels/comm/world.h"

// Prepares the launch of a trial's ranks: words (launch.h) with `program`, NULL: this one, and its arguments,
// ending in NULL. Returns false and a status (unsupported) on failure. Release with launch_close, also after a
// failure.
struct launch;
bool ranks_launch_open(struct launch *launch, const struct trial *trial, const char *program,
                       const char *const *arguments, const char *words, struct status *status);
// Arguments of a rank in a sweep's trial.
extern const char *const ranks_of_trial[];
// The device of a rank, "cuda:1": each rank of a machine has its own card.
#define RANK_DEVICE_BYTES (TRIAL_DEVICE_BYTES + 24)
void ranks_device(char device[RANK_DEVICE_BYTES], const struct trial *trial, const struct world *world);
// Collects all ranks' gradients on rank 0; other ranks get an empty set. Release with gradient_set_free.
void ranks_gradients(struct gradient_set *set, const struct model *model, struct split split, size_t context,
                     const struct world *world);
