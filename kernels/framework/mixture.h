// Mixture: transformers' mixtures of experts, as its grouped products run them: rows by expert, of which there are
// as many however the tokens choose.
#pragma once
#include "kernels/framework/framework_run.h"

// Layer l's experts' sum, of its norm's output.
struct value mixture_forward(struct framework_run *run, size_t l, struct value x);
