// LoRA modules: which modules of a model have factors, with which rank and alpha, and which train whole, by the
// keys and rules of PEFT's LoraConfig.
#pragma once
#include "harness/json/json_field.h"
#include "kernels/model/lora.h"

// The keys; an absent one has no value.
struct lora_fields {
    struct json_field target_modules, target_parameters, exclude_modules, layers_to_transform, layers_pattern,
        rank_pattern, alpha_pattern, modules_to_save, ensure_weight_tying;
};

// Completes a lora whose rank, alpha, rslora and default targets are set. strict: for a request rather than a file
// that PEFT wrote. Then unmatched names and contradictory patterns are errors; "q" stands for "q_proj", "head" for
// "lm_head"; parts of a fused projection can be named, and in target_modules the parameters that PEFT has in
// target_parameters: the router's and the experts' ("router", "experts_down"). "all-linear" has these, too, with
// twice the rank and alpha for gate and up of experts, which share their A, as PEFT has it. Returns false and a
// status that names the key for anything that PEFT refuses or that is not supported; lora then needs no release.
bool lora_modules_read(struct lora *lora, const struct lora_fields *fields, const struct config *config,
                       bool strict, struct status *status);
