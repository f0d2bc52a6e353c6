// Plan of ranks: the samples of a trial over several ranks, without data. Those that walk alike are walked once.
#pragma once
#include "harness/trial/run_part.h"

// Every rank's figures, and what they come to together; with a profile and links the estimate of a step, and how
// much of it each rank waits. What is left open is rank 0's part.
bool plan_ranks(struct run *run);
