// Card rates: the rates of a card's operations in bf16, from what build/bench/bench_ops wrote on it, and what its
// power limit costs, from steps that were timed on it. A step then takes
//   t = limited(sum over operations of max(FLOPs / rate, bytes / bandwidth) + glue / bandwidth + launch)
// (kernels/device/rates.h). A rate is chosen so that the operation takes what was measured; where a table lacks a
// point, points near it in the logarithms of its shape give it, weighed by the inverse square of their distance.
// Calls longer than 10 ms are left out, for the card has reached its power limit in them. Attention with a window
// gives the rate of own kernels: they ran it when a file's context has no "masked_attention", or "own kernels". The
// forward's keys were cut into ranges if it has "attention_keys": "ranges".
#pragma once
#include "harness/profile/profile.h"

// Sets profile->rates[DTYPE_BF16] and its source. operations: JSON of bench_ops; steps: records of trials that the
// profile's card ran, of which those of method full give the factor of the power limit, their median, and all but
// draws give the spread. False and a status (bad input) if a file cannot be read, lacks an operation or full, or
// has a window by cuDNN.
bool card_rates(struct profile *profile, const char *operations, const char *steps, struct status *status);
