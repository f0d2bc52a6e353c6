#include "harness/framework/run_keys.h"
#include <string.h>

#define FACT(name, use, member)                                                                                    \
    {                                                                                                              \
        name, USE_##use, offsetof(struct run_facts, member), NULL, 0                                               \
    }
#define REFUSED(name, why)                                                                                         \
    {                                                                                                              \
        name, USE_REFUSED, 0, why, 0                                                                               \
    }
#define SHARED(name)                                                                                               \
    {                                                                                                              \
        name, USE_REFUSED, 0, "a step that cards share is not known", 1                                            \
    }
#define UNCHECKED(name, why)                                                                                       \
    {                                                                                                              \
        name, USE_UNCHECKED, 0, why, 0                                                                             \
    }

static const struct run_key keys[] = {
    // transformers, TRL
    FACT("model_name_or_path", TEXT, model),
    FACT("per_device_train_batch_size", COUNT, batch),
    FACT("gradient_accumulation_steps", COUNT, accumulate),
    FACT("max_length", COUNT, context),
    FACT("max_seq_length", COUNT, context),
    FACT("gradient_checkpointing", SWITCH, checkpoint),
    FACT("activation_checkpointing", SWITCH, checkpoint),
    {"gradient_checkpointing_kwargs", USE_PARTS, 0, NULL, 0},
    {"activation_checkpointing_kwargs", USE_PARTS, 0, NULL, 0},
    {"model_init_kwargs", USE_PARTS, 0, NULL, 0},
    FACT("use_reentrant", SWITCH, reentrant),
    FACT("offload", SWITCH, offload),
    FACT("dtype", TEXT, dtype),
    FACT("torch_dtype", TEXT, dtype),
    FACT("attn_implementation", TEXT, attention),
    FACT("optim", TEXT, optimizer),
    FACT("bf16", SWITCH, autocast),
    FACT("use_liger_kernel", SWITCH, liger),
    FACT("use_liger", SWITCH, liger),
    FACT("loss_type", TEXT, loss),
    FACT("packing", SWITCH, packing),
    FACT("padding_free", SWITCH, padding_free),
    FACT("packing_strategy", TEXT, packing_strategy),
    FACT("use_peft", SWITCH, lora),
    FACT("lora_r", COUNT, rank),
    FACT("lora_alpha", COUNT, alpha),
    FACT("lora_dropout", NUMBER, dropout),
    {"lora_target_modules", USE_TARGETS, 0, NULL, 0},
    FACT("load_in_4bit", SWITCH, four_bits),
    FACT("bnb_4bit_quant_type", TEXT, values),
    FACT("use_bnb_nested_quant", SWITCH, nested_scales),
    // transformers' BitsAndBytesConfig
    {"quantization_config", USE_QUANTISER, 0, NULL, 0},
    FACT("quant_method", TEXT, quantiser),
    FACT("_load_in_4bit", SWITCH, four_bits),
    FACT("bnb_4bit_use_double_quant", SWITCH, nested_scales),
    FACT("bnb_4bit_compute_dtype", TEXT, products),
    REFUSED("load_in_8bit", "weights of 8 bits are not known; give load_in_4bit"),
    REFUSED("_load_in_8bit", "weights of 8 bits are not known; give load_in_4bit"),
    REFUSED("llm_int8_skip_modules", "projections that stay as they are beside others of 4 bits are not known"),
    REFUSED("llm_int8_enable_fp32_cpu_offload", "weights on the host are not known"),
    // PEFT's adapter_config.json
    FACT("base_model_name_or_path", TEXT, base),
    FACT("r", COUNT, rank),
    {"target_modules", USE_TARGETS, 0, NULL, 0},
    REFUSED("bias", "trained biases are not known"),
    REFUSED("rank_pattern", "ranks by module are not known"),
    REFUSED("alpha_pattern", "alphas by module are not known"),
    REFUSED("layers_to_transform", "LoRA of some layers is not known"),
    REFUSED("layer_replication", "replicated layers are not known"),
    REFUSED("target_parameters", "LoRA of parameters is not known"),
    REFUSED("trainable_token_indices", "trained tokens are not known"),
    // Axolotl
    FACT("base_model", TEXT, model),
    FACT("micro_batch_size", COUNT, batch),
    FACT("sequence_len", COUNT, context),
    FACT("optimizer", TEXT, optimizer),
    FACT("adapter", TEXT, adapter),
    FACT("lora_target_linear", SWITCH, every_linear),
    FACT("sample_packing", SWITCH, padding_free),
    FACT("flash_attention", SWITCH, flash),
    FACT("liger_fused_linear_cross_entropy", SWITCH, liger),
    FACT("rl", TEXT, stage),
    {"bnb_config_kwargs", USE_PARTS, 0, NULL, 0},
    // LLaMA-Factory
    FACT("stage", TEXT, stage),
    FACT("finetuning_type", TEXT, kind),
    FACT("cutoff_len", COUNT, context),
    FACT("disable_gradient_checkpointing", SWITCH, no_checkpoint),
    FACT("use_reentrant_gc", SWITCH, reentrant),
    FACT("enable_liger_kernel", SWITCH, liger),
    FACT("use_unsloth_gc", SWITCH, unsloth_checkpoints),
    FACT("flash_attn", TEXT, attention),
    FACT("neat_packing", SWITCH, padding_free),
    FACT("pure_bf16", SWITCH, pure),
    FACT("lora_rank", COUNT, rank),
    FACT("quantization_bit", COUNT, bits),
    FACT("quantization_method", TEXT, quantiser),
    FACT("quantization_type", TEXT, values),
    FACT("double_quantization", SWITCH, nested_scales),
    {"lora_target", USE_TARGETS, 0, NULL, 0},
    // Cards that share a step
    REFUSED("deepspeed", "DeepSpeed's configuration is not read; leave it out and give --framework "
                         "ranks=N,shards=states for its stage 1, shards=gradients for 2, shards=all for 3"),
    REFUSED("fsdp", "FSDP's configuration is not read; leave it out and give --framework ranks=N,shards=all for "
                    "full_shard, shards=gradients for shard_grad_op"),
    REFUSED("fsdp_config", "FSDP's configuration is not read; leave it out with \"fsdp\""),
    SHARED("fsdp_version"),
    SHARED("parallelism_config"),
    SHARED("sequence_parallel"),
    SHARED("sequence_parallel_size"),
    SHARED("sequence_parallel_degree"),
    SHARED("context_parallel"),
    SHARED("context_parallel_size"),
    SHARED("tensor_parallel_size"),
    SHARED("dp_shard_size"),
    SHARED("ray_num_workers"),
    // Steps that are not known
    REFUSED("fp16", "a step in fp16 is not known; give bf16"),
    REFUSED("float16", "a step in fp16 is not known; give bf16"),
    REFUSED("fp8", "a step in fp8 is not known"),
    REFUSED("fp32", "a step in f32 without autocast is not known; give bf16"),
    REFUSED("use_cpu", "a step on a processor is not known"),
    REFUSED("torch_compile", "a compiled step keeps other tensors, and is not known"),
    REFUSED("activation_offloading", "activations on the host are not known"),
    {"every_n_layers", USE_REFUSED, 0, "checkpoints of some layers are not known", 1},
    REFUSED("gptq", "weights of GPTQ's are not known; give load_in_4bit with the model they were made of"),
    REFUSED("auto_find_batch_size", "the batch is not said; leave it out and give the one that was found"),
    REFUSED("label_smoothing_factor", "the loss with smoothed labels is not known"),
    REFUSED("neftune_noise_alpha", "noise on embeddings is not known"),
    REFUSED("optim_target_modules", "an optimizer of projected gradients is not known"),
    REFUSED("use_galore", "an optimizer of projected gradients is not known"),
    REFUSED("use_badam", "an optimizer of blocks is not known"),
    REFUSED("use_apollo", "an optimizer of projected gradients is not known"),
    REFUSED("use_unsloth", "Unsloth's own kernels are not known"),
    REFUSED("unsloth_lora_mlp", "Unsloth's own kernels are not known"),
    REFUSED("lora_mlp_kernel", "Axolotl's fused LoRA is not known"),
    REFUSED("lora_qkv_kernel", "Axolotl's fused LoRA is not known"),
    REFUSED("lora_o_kernel", "Axolotl's fused LoRA is not known"),
    REFUSED("cut_cross_entropy", "cut cross-entropy is not known"),
    REFUSED("chunked_cross_entropy", "Axolotl's chunked cross-entropy is not known"),
    REFUSED("tiled_mlp", "a tiled MLP is not known"),
    REFUSED("lora_modules_to_save", "modules saved whole are not known"),
    REFUSED("modules_to_save", "modules saved whole are not known"),
    REFUSED("additional_target", "modules saved whole are not known"),
    REFUSED("lora_target_parameters", "LoRA of parameters is not known"),
    REFUSED("peft_layers_to_transform", "LoRA of some layers is not known"),
    REFUSED("unfrozen_parameters", "training some of the weights is not known"),
    REFUSED("freeze_trainable_layers", "training some of the layers is not known"),
    REFUSED("use_dora", "DoRA is not known"),
    REFUSED("peft_use_dora", "DoRA is not known"),
    REFUSED("loraplus_lr_ratio", "LoRA+ was not checked"),
    REFUSED("pissa_init", "PiSSA was not checked"),
    REFUSED("relora", "ReLoRA is not known"),
    REFUSED("eager_attention", "give attn_implementation: eager"),
    REFUSED("xformers_attention", "xformers' attention is not known"),
    REFUSED("flex_attention", "flex attention is not known"),
    REFUSED("s2_attention", "shifted sparse attention is not known"),
    REFUSED("shift_attn", "shifted sparse attention is not known"),
    REFUSED("beta", "a step with a reference model is not known"),
    REFUSED("pref_beta", "a step with a reference model is not known"),
    REFUSED("num_generations", "a step with generation is not known"),
    REFUSED("max_completion_length", "a step with generation is not known"),
    REFUSED("mixture_of_depths", "a mixture of depths is not known"),
    REFUSED("router_aux_loss_coef", "a mixture of experts is not known"),
    // Named
    UNCHECKED("eval_strategy", "evaluation takes memory of its own, and is not planned"),
    UNCHECKED("use_cache", "a cache of keys and values would be kept beside"),
    UNCHECKED("lisa_n_layers", "LISA trains some of the layers at a time; all are planned"),
    UNCHECKED("liger_rms_norm", "Liger's norms keep less than those that are planned"),
    UNCHECKED("liger_glu_activation", "Liger's MLP keeps less than the one that is planned"),
    UNCHECKED("liger_layer_norm", "Liger's norms keep less than those that are planned"),
    UNCHECKED("liger_rope", "Liger's RoPE is not planned"),
    {0}};

// Names that change no step's memory, with spaces before and behind each.
static const char ignored[] =
    " output_dir overwrite_output_dir num_train_epochs num_epochs max_steps learning_rate lr_scheduler_type "
    "lr_scheduler"
    " lr_scheduler_kwargs warmup_steps warmup_ratio optim_args weight_decay adam_beta1 adam_beta2 adam_epsilon"
    " average_tokens_across_devices max_grad_norm bf16_full_eval fp16_full_eval tf32 torch_compile_backend"
    " torch_compile_mode liger_kernel_config torch_empty_cache_steps logging_strategy logging_steps "
    "logging_first_step"
    " log_on_each_node logging_nan_inf_filter include_num_input_tokens_seen log_level log_level_replica "
    "disable_tqdm"
    " report_to run_name project trackio_space_id trackio_bucket_id trackio_static_space_id eval_steps eval_delay"
    " per_device_eval_batch_size prediction_loss_only eval_on_start eval_do_concat_batches eval_use_gather_object"
    " eval_accumulation_steps include_for_metrics batch_eval_metrics save_only_model save_strategy save_steps"
    " save_on_each_node save_total_limit enable_jit_checkpoint push_to_hub hub_token hub_private_repo hub_model_id"
    " hub_strategy hub_always_push hub_revision load_best_model_at_end metric_for_best_model greater_is_better"
    " ignore_data_skip restore_callback_states_from_checkpoint full_determinism seed data_seed dataloader_drop_last"
    " dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor"
    " dataloader_multiprocessing_context dataloader_in_order remove_unused_columns label_names "
    "train_sampling_strategy"
    " group_by_length length_column_name ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers"
    " ddp_static_graph ddp_backend ddp_timeout accelerator_config debug skip_memory_metrics do_train do_eval "
    "do_predict"
    " resume_from_checkpoint local_rank logging_dir save_safetensors trust_remote_code chat_template_path"
    " dataset_text_field dataset_kwargs dataset_num_proc eos_token truncation_mode shuffle_dataset"
    " pad_to_multiple_of eval_packing completion_only_loss assistant_only_loss pad_token model_revision "
    "lora_task_type"
    " use_rslora bnb_4bit_quant_storage llm_int8_threshold llm_int8_has_fp16_weight dataset_name dataset_config"
    " dataset_train_split dataset_test_split dataset_streaming ignore_bias_buffers preserve_rng_state "
    "determinism_check"
    " base_model_config model_type tokenizer_type tokenizer_config is_llama_derived_model datasets test_datasets"
    " dataset_prepared_path dataset_processes val_set_size eval_sample_packing pad_to_sequence_len train_on_inputs"
    " lora_model_dir lora_fan_in_fan_out wandb_project wandb_entity wandb_watch wandb_name wandb_log_model"
    " mlflow_experiment_name early_stopping_patience evals_per_epoch saves_per_epoch eval_table_size"
    " eval_max_new_tokens eval_batch_size special_tokens tokens plugins chat_template strict group_by_length"
    " sdp_attention shuffle_merged_datasets dataset_keep_in_memory auto_resume_from_checkpoints"
    " template dataset dataset_dir eval_dataset max_samples overwrite_cache preprocessing_num_workers plot_loss"
    " overwrite_output_dir val_size predict_with_generate use_fast_tokenizer mask_history train_on_prompt"
    " streaming buffer_size mix_strategy cache_dir resize_vocab tokenized_path task_type peft_type auto_mapping "
    "peft_version revision"
    " inference_mode fan_in_fan_out init_lora_weights layers_pattern megatron_core qalora_group_size _n_gpu ";

const struct run_key *run_key_find(const char *name)
{
    static const struct run_key none = {.use = USE_NONE};
    const struct run_key *key = keys;
    while (key->name && strcmp(key->name, name) != 0)
        key++;
    if (key->name)
        return key;
    size_t length = strlen(name);
    for (const char *at = strstr(ignored, name); length && at; at = strstr(at + 1, name))
        if (at[-1] == ' ' && at[length] == ' ')
            return &none;
    return NULL;
}
