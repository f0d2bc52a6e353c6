// Choice: replaces method auto of a trial by the fastest exact method that fits, with its options.
#pragma once
#include "harness/plan/planned_step.h"
#include "kernels/comm/world.h"

// Sets the trial's method and options, and offload targets if there is host memory. Limits are per rank. Does
// nothing for other methods. Returns false and a status (oom: nothing fits).
bool choose_method(struct trial *trial, struct planned_limits limits, struct status *status);
// The same within the trial's limits. Limits default to the profile's usable bytes less its reserve for plans
// (without offload), to free memory otherwise. All ranks call this and get one choice, for the rank with the least
// memory; ranks of a machine share its memory. Only rank 0 reports an error.
bool choose_within(struct trial *trial, const struct world *world, struct status *status);