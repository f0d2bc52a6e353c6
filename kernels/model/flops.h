// FLOPs of a model, methods/README.md; the pairs that the masks leave counted exactly. Of the batch its shape and
// its documents count.
#pragma once
#include "kernels/model/model.h"
#include "kernels/objectives/batch.h"

// Of one forward pass over the batch's sequences, F in methods/README.md.
double model_forward_flops(const struct config *config, const struct lora *lora, const struct batch *batch);
// Of one full backprop over them, not of what a method runs: forward + gradients of all activations + gradients of
// what trains.
double model_flops(const struct config *config, const struct lora *lora, const struct batch *batch);
