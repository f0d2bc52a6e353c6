// Sweep possible: whether any trial of a spec can be measured on this machine at all, said before the first is
// tried.
#pragma once
#include "harness/spec/spec.h"

// False and a status with the reason of the first trial if none can: its device or what starts its ranks is not
// there. A device is asked in a process of its own. launch: what starts a trial's ranks (launch.h); NULL: mpirun.
// interrupted: a signal came meanwhile; then false, without a status.
bool sweep_possible(const struct spec *spec, const char *launch, bool *interrupted, struct status *status);
