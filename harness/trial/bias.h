// Bias: mean and spread of a sampled gradient, by enumerating every set of chunks that the sampler can draw.
#pragma once
#include "harness/record/record.h"
#include "harness/step/gradient_error.h"
#include "methods/training_step.h"

#define BIAS_SUBSETS_MAX 4096

// Evaluates a method that samples chunks on every subset, through its sampler `fixed`. reference: the exact
// gradient of the same weights and tokens. Returns false and a status if there are too many subsets, or if a step
// failed.
bool bias_measure(struct record_bias *bias, const struct method *method, struct trainer *trainer,
                  const struct batch *batch, const void *options, const struct gradient_set *reference,
                  struct status *status);
