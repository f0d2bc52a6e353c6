// Bias: mean and spread of a sampled gradient, by enumerating every set of chunks that the sampler can draw.
#pragma once
#include "harness/trial/run_steps.h"

// Evaluates a method that samples chunks on every subset, through its sampler `fixed`, against the reference that
// was taken. Returns false and the run's status if there are too many subsets, or if a step failed.
bool bias_measure(struct run *run);
