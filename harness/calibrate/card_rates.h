// Card rates: bf16 rates of a card's operations from the output of build/bench/bench_ops, and the effect of its
// power limit, from timed steps. A step then takes
//   t = limited(sum over operations of max(FLOPs / rate, bytes / bandwidth) + glue / bandwidth + launch)
// (kernels/device/rates.h). Each rate reproduces the measured time of its operation; missing points of a table are
// interpolated from points near them in the logarithms of the shape, weighted by the inverse square of the
// distance. Calls longer than 10 ms are ignored, because the card reaches its power limit in them. Attention with a
// window gives the rate of own kernels if the file's context has no "masked_attention" or "own kernels". The
// forward's keys were cut into ranges if it has "attention_keys": "ranges".
#pragma once
#include "harness/profile/profile.h"

// Sets profile->rates[DTYPE_BF16] and its source. operations: JSON of bench_ops; steps: records of trials on the
// profile's card: those of method full give the power limit's factor, by their median; all but draws give the
// spread. Returns false and a status (bad input) if a file cannot be read, lacks an operation or method full, or
// has windows by cuDNN.
bool card_rates(struct profile *profile, const char *operations, const char *steps, struct status *status);
