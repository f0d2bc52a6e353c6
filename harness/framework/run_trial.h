// Run trial: the trial that the facts of a run's file make, with what its trainer does where the file says nothing.
#pragma once
#include "harness/framework/run_reading.h"

// False, and a message in the reading's status, if a fact has a value that no plan is known for.
bool run_trial_check(const struct run_reading *reading);
// Sets the keys of the step and of LoRA in the run's trial, and notes what a plan does not have.
void run_trial_set(const struct run_reading *reading);
