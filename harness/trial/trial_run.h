// Trial run: a trial's execution in this process.
#pragma once
#include "harness/spec/trial.h"
#include "kernels/comm/world.h"

// Runs the trial in this process: set-up, gradient check, warm-up, samples; of a planned one a single step that
// nothing times. store: of references that trials before it have taken (harness/trial/reference_store.h); -1: none.
// Returns the record as one line of JSON, to be freed; a failure is a record too.
char *trial_run(const struct trial *trial, int store);
// Runs it as one rank of several. The record is rank 0's, the others return NULL; but a rank that has failed
// returns one of its own, and the others wait for it in vain.
char *trial_run_rank(const struct trial *trial, struct world *world, bool *failed);
