// Trial run: runs a trial in this process.
#pragma once
#include "harness/spec/trial.h"
#include "kernels/comm/world.h"

// Runs a trial: set-up, gradient check, warm-up, samples; for a planned one a single untimed step. store: of
// earlier trials' references (harness/trial/reference_store.h); -1: none. Returns the record as a line of JSON, to
// be freed; a failure is a record too.
char *trial_run(const struct trial *trial, int store);
// Runs it as one rank of several. Rank 0 returns the record, the others NULL; a failed rank returns a record of its
// own, and the others must be ended.
char *trial_run_rank(const struct trial *trial, struct world *world, bool *failed);
