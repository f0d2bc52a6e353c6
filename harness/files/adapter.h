// Adapter: LoRA factors as PEFT keeps them in a folder, adapter_config.json beside adapter_model.safetensors.
#pragma once
#include "kernels/transformer/config.h"

// Whether the folder has one.
bool adapter_is_in(const char *folder);
// What the folder's adapter of a model of this shape is: rank, alpha and rslora by its configuration, the
// projections by the factors that there are, each of which must be in every layer and of the right shape. False and
// a status if it has no adapter, or one that computes something else than methods/methods.md says, by the key that
// says so. lora_dropout is left out: the gradient is that of the model as it is evaluated.
bool adapter_read(const char *folder, const struct config *config, struct lora *lora, struct status *status);
