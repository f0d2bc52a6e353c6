// FLOPs: what a model's passes multiply and add (methods/README.md), with the pairs that masks leave counted
// exactly. They depend on the batch's shape and documents alone.
#pragma once
#include "kernels/model/model.h"
#include "kernels/objectives/batch.h"

// FLOPs of one forward pass over the batch's sequences, F in methods/README.md.
double model_forward_flops(const struct config *config, const struct lora *lora, const struct batch *batch);
// Model FLOPs: one full backprop over them, whatever a method runs: forward + gradients of all activations +
// gradients of what trains.
double model_flops(const struct config *config, const struct lora *lora, const struct batch *batch);
