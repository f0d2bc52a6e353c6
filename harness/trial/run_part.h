// Run part: a rank's part of a trial's run, from the set-up to the samples.
#pragma once
#include "harness/trial/run_steps.h"

// The rank's part of the step; its peak begins with it. ranks NULL: there is one.
bool run_open_part(struct run *run, const struct comm *ranks);
bool run_take_samples(struct run *run);
