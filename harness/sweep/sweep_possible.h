// Sweep possible: checks before a sweep that some trial can be measured on this machine.
#pragma once
#include "harness/spec/spec.h"

// Returns false and the first trial's reason if no trial can be measured: its device or the launcher of its ranks
// is missing. Each device is probed in a process of its own. launch: starts a trial's ranks (launch.h); NULL:
// mpirun. interrupted: a signal came; then returns false without a status.
bool sweep_possible(const struct spec *spec, const char *launch, bool *interrupted, struct status *status);
