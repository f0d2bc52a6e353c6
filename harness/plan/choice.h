// Choice: what a trial walks that asks for method auto: the fastest exact method that fits, with its options.
#pragma once
#include "harness/plan/planned_step.h"
#include "kernels/comm/world.h"

// Puts the choice in the place of the trial's method and options, and on the host, where there is memory, what the
// trial has on the device and the choice has there. Limits are of each rank. Of a method that is given it does
// nothing. False and a status (oom: nothing fits).
bool choose_method(struct trial *trial, struct planned_limits limits, struct status *status);
// The same within the trial's limits; without them of a plan within what its profile says is usable, less its
// reserve, and nothing on the host, of a device within what it and the host have free. Of ranks, which all come
// here, one choice, within what the one with the least has; of the memory of a machine each has a part. Rank 0
// alone says what is wrong, and the others wait to be ended.
bool choose_within(struct trial *trial, const struct world *world, struct status *status);