// Ranks: a trial over several processes: what starts them, the device of each, and their gradients, gathered.
#pragma once
#include "harness/spec/trial.h"
#include "harness/step/gradient_error.h"
#include "kernels/comm/world.h"

// What starts a trial's ranks: words (launch.h) with `program`, NULL: this one, and its arguments, ending in NULL.
// Release with launch_close, also after a failure. False and a status (unsupported) if they cannot be started.
struct launch;
bool ranks_launch_open(struct launch *launch, const struct trial *trial, const char *program,
                       const char *const *arguments, const char *words, struct status *status);
// The arguments of a rank of a sweep's trial.
extern const char *const ranks_of_trial[];
// The device that a rank opens, "cuda:1": of those with cards each rank of a machine has its own.
#define RANK_DEVICE_BYTES 24
void ranks_device(char device[RANK_DEVICE_BYTES], const struct trial *trial, const struct world *world);
// The gradients of all ranks' parts, on rank 0; on others an empty set. Release with gradient_set_free.
void ranks_gradients(struct gradient_set *set, const struct model *model, struct split split, size_t context,
                     const struct world *world);
