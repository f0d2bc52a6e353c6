// Ranks possible: which trials ranks can share.
#pragma once
#include "harness/spec/trial.h"

// Whether ranks can share the method, with its options, and the model as the trial asks for; and whether its batch
// and its device, too. False and a status (unsupported) that says why not.
bool ranks_fit(const struct trial *trial, struct status *status);
bool ranks_possible(const struct trial *trial, struct status *status);
