#include "harness/step/setup_options.h"
#include "harness/spec/device_kind.h"
#include <string.h>

struct setup_options setup_options_of(const struct trial *trial)
{
    return (struct setup_options){
        .device = trial->device,
        .dtype = trial->dtype,
        .kv_gradient_dtype = trial->kv_gradient_dtype,
        .kv_gradient_stochastic = trial->kv_gradient_stochastic,
        .gradient_dtype = trial->gradient_dtype,
        .weights_place = trial_place(trial, OFFLOAD_WEIGHTS),
        .gradients_place = trial_place(trial, OFFLOAD_GRADIENTS),
        .optimizer_place = trial_place(trial, OFFLOAD_OPTIMIZER),
        .optimizer = trial->optimizer,
        .optimizer_options = trial->optimizer_options,
        .lora_beside = trial->optimizer && trial->optimizer->lora == LORA_BESIDE,
        .deterministic = trial->deterministic,
        .tf32 = trial->tf32,
        .whole_attention = trial->whole_attention,
        .attention_queries = trial->attention_queries,
        .latent_block = trial->latent_block,
        .whole_keys = trial->whole_keys,
        .unfused = trial->unfused,
        .gemm_algorithms = trial->gemm_algorithms,
        .memory_limit_bytes = trial->memory_limit_bytes,
        .host_memory_limit_bytes = trial->host_memory_limit_bytes,
        .host_folder = trial->host_folder,
    };
}

struct setup_options setup_options_planned(const struct trial *trial)
{
    struct setup_options options = setup_options_of(trial);
    if (!trial->planned)
        options.device = device_kind_like(trial_is_of_card(trial))->planned;
    return options;
}

struct setup_options setup_options_reference(void)
{
    return (struct setup_options){
        .device = "cpu",
        .dtype = DTYPE_F64,
        .kv_gradient_dtype = DTYPE_F64,
        .gradient_dtype = DTYPE_F64,
        .dequantised = true,
        .apart = true,
    };
}
