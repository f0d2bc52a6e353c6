// Adapter: LoRA factors as PEFT keeps them in a folder, adapter_config.json beside adapter_model.safetensors.
#pragma once
#include "kernels/model/lora.h"

// Whether the folder has one.
bool adapter_is_in(const char *folder);
// Reads the folder's adapter of a model of this shape: by its configuration, as PEFT reads it, and its tensors,
// which must be those that the configuration asks for. False and a status if it has no adapter, or one that
// computes something else than kernels/README.md says, by the key that says so. lora_dropout is left out: the
// gradient is that of the model as it is evaluated. Release with lora_free after a success.
bool adapter_read(const char *folder, const struct config *config, struct lora *lora, struct status *status);
// Writes the configuration of an adapter; base: the folder of the weights below, NULL: there is none.
bool adapter_write_config(const char *folder, const char *base, const struct config *config,
                          const struct lora *lora, struct status *status);
