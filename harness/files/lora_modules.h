// LoRA modules: which of a model's modules have factors, of which rank and alpha, and which train whole, by the
// keys of PEFT's LoraConfig and by its rules.
#pragma once
#include "harness/files/json_field.h"
#include "kernels/transformer/config.h"

// The keys; one that is left out has no value.
struct lora_fields {
    struct json_field target_modules, exclude_modules, layers_to_transform, layers_pattern, rank_pattern,
        alpha_pattern, modules_to_save, ensure_weight_tying;
};

// Of a lora whose rank, alpha and rslora are set, and targets where target_modules is left out, sets the rest.
// strict: of a request, not of a file that PEFT wrote. A name that no module has is then an error, as are two
// patterns that give one module two values; "q" stands for "q_proj", "head" for "lm_head", and parts of a fused
// projection can be named. False and a status that names the key on what PEFT refuses, too, and on what is not
// computed; lora is then free of what must be freed.
bool lora_modules_read(struct lora *lora, const struct lora_fields *fields, const struct config *config,
                       bool strict, struct status *status);
// A module's name in its model, "model.layers.0.self_attn.q_proj". target: a position in lora_target_modules.
void lora_module_name(char *name, size_t bytes, size_t layer, size_t target);
// The last part of a target's name, "q_proj".
const char *lora_module_leaf(size_t target);
// Whether the base's files have the module, where PEFT finds it.
bool lora_module_is_own(const struct config *config, size_t target);
