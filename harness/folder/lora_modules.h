// LoRA modules: which of a model's modules have factors, of which rank and alpha, and which train whole, by the
// keys of PEFT's LoraConfig and by its rules.
#pragma once
#include "harness/json/json_field.h"
#include "kernels/model/lora.h"

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
