// Fused weights: projections that a family's files keep in one tensor, one below the other (Phi-3), as the tensors
// that they are in all other files.
#pragma once
#include "harness/tensors/safetensors.h"
#include "kernels/model/model.h"

// Puts q_proj, k_proj and v_proj in the place of every qkv_proj whose parts the model has, and gate_proj and
// up_proj in that of gate_up_proj; the data stay where they are. False and a status if rows do not add up.
bool fused_weights_split(struct safetensors *file, const struct model *model, struct status *status);
