// Ranks possible: checks whether ranks can share a trial.
#pragma once
#include "harness/spec/trial.h"

// Checks that ranks can share the method with its options and the model; the second function also checks batch and
// device. Returns false and a status (unsupported) with the reason.
bool ranks_fit(const struct trial *trial, struct status *status);
bool ranks_possible(const struct trial *trial, struct status *status);
