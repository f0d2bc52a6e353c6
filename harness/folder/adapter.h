// Adapter: LoRA factors in a PEFT folder, adapter_config.json beside adapter_model.safetensors.
#pragma once
#include "kernels/model/lora.h"

// Tells whether the folder has an adapter.
bool adapter_is_in(const char *folder);
// Reads the folder's adapter for a model of this shape, with PEFT's rules; its tensors must be those that the
// configuration requires. Returns false and a status that names the key if there is no adapter or it computes
// something else than kernels/README.md describes. lora_dropout is ignored: the gradient is that of evaluation
// mode. Release with lora_free after a success.
bool adapter_read(const char *folder, const struct config *config, struct lora *lora, struct status *status);
// Writes an adapter's configuration; base: the folder of the base weights, or NULL.
bool adapter_write_config(const char *folder, const char *base, const struct config *config,
                          const struct lora *lora, struct status *status);
