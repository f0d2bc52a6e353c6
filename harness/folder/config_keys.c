#include "harness/folder/config_keys.h"
#include <string.h>

#define WINDOWS (KEYS_MISTRAL | KEYS_MINISTRAL3 | KEYS_PHI3 | KEYS_MIXTRAL | KEYS_QWEN3_MOE | LISTED)
#define LISTED                                                                                                     \
    (KEYS_MINISTRAL | KEYS_QWEN2 | KEYS_QWEN3 | KEYS_GEMMA2 | KEYS_GEMMA3 | KEYS_OLMO3 | KEYS_GRANITE_SWA |        \
     KEYS_EXAONE4 | KEYS_COHERE2 | KEYS_GEMMA4 | KEYS_QWEN2_MOE | KEYS_GPT_OSS | KEYS_DOTS1)
#define COHERES (KEYS_COHERE | KEYS_COHERE2)
#define DELTA   (KEYS_QWEN3_5 | KEYS_QWEN3_5_MOE | KEYS_QWEN3_NEXT | KEYS_OLMO_HYBRID)
#define LATENT                                                                                                     \
    (KEYS_DEEPSEEK_V2 | KEYS_DEEPSEEK_V3 | KEYS_YOUTU | KEYS_GLM4_MOE_LITE | KEYS_KIMI_LINEAR | KEYS_MINICPM3)
#define DEEPSEEK   (KEYS_DEEPSEEK_V3 | KEYS_GLM4_MOE_LITE | KEYS_GLM4_MOE | KEYS_DOTS1)
#define STEPS      (KEYS_QWEN3_MOE | KEYS_QWEN2_MOE | KEYS_QWEN3_NEXT)
#define BY_SIGMOID (DEEPSEEK | KEYS_KIMI_LINEAR)
#define WIDE       (KEYS_MIXTRAL | KEYS_OLMOE | KEYS_GPT_OSS | KEYS_MINIMAX_M2 | KEYS_GRANITEMOE)
#define EXPERTS    (WIDE | STEPS | BY_SIGMOID | KEYS_DEEPSEEK_V2 | KEYS_QWEN3_5_MOE | KEYS_ERNIE4_5_MOE)
#define BALANCED   (EXPERTS & ~(BY_SIGMOID | KEYS_DEEPSEEK_V2))
#define SWITCHED   (KEYS_QWEN2 | KEYS_QWEN3 | KEYS_QWEN3_MOE | KEYS_QWEN2_MOE)
#define WITHOUT_BIAS                                                                                               \
    (KEYS_MISTRAL | KEYS_MINISTRAL | KEYS_MINISTRAL3 | KEYS_PHI3 | KEYS_EXAONE4 | KEYS_ERNIE4_5 | KEYS_MIXTRAL |   \
     KEYS_QWEN2_MOE | KEYS_MINIMAX_M2 | KEYS_ERNIE4_5_MOE)
#define ALL_BUT(s) (KEYS_ALL & ~(s))

static const char code[] = "names code", drafts[] = "of heads that draft", dropout[] = "nothing is dropped out",
                  internal[] = "is internal to transformers, and no file has it",
                  other[] = "names another configuration, which is not read";

#define NAMES(...)                                                                                                 \
    .names = (const char *const[])                                                                                 \
    {                                                                                                              \
        __VA_ARGS__, NULL                                                                                          \
    }

// For each name the first row that includes the family applies.
const struct config_key config_keys[] = {
    {LATENT, KEY_READ, NAMES("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")},
    {KEYS_GLM4_MOE_LITE | KEYS_DEEPSEEK_V3 | KEYS_YOUTU, KEY_READ, NAMES("head_dim")},
    {KEYS_KIMI_LINEAR, KEY_HARMLESS, NAMES("head_dim"), .why = "heads have qk_nope_head_dim + qk_rope_head_dim"},
    {LATENT, KEY_HARMLESS, NAMES("head_dim", "qk_head_dim"), .why = "follows from the parts of a head"},
    {KEYS_DEEPSEEK_V3 | KEYS_YOUTU | KEYS_GLM4_MOE_LITE, KEY_READ, NAMES("rope_interleave")},
    {KEYS_DEEPSEEK_V2 | KEYS_DEEPSEEK_V3 | KEYS_KIMI_LINEAR | KEYS_GLM4_MOE | KEYS_DOTS1, KEY_READ,
     NAMES("first_k_dense_replace")},
    {KEYS_GLM4_MOE_LITE | KEYS_KIMI_LINEAR, KEY_READ, NAMES("mlp_layer_types")},
    {STEPS, KEY_READ, NAMES("decoder_sparse_step", "mlp_only_layers")},
    {KEYS_ERNIE4_5_MOE, KEY_READ,
     NAMES("moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval", "moe_num_experts", "num_experts",
           "moe_k", "moe_num_shared_experts", "moe_norm_min")},
    {KEYS_QWEN3_MOE | KEYS_OLMOE | KEYS_MIXTRAL | KEYS_GPT_OSS | KEYS_MINIMAX_M2 | KEYS_KIMI_LINEAR, KEY_READ,
     NAMES("num_experts", "num_local_experts")},
    {KEYS_QWEN2_MOE | KEYS_QWEN3_NEXT | KEYS_QWEN3_5_MOE, KEY_READ, NAMES("num_experts")},
    {KEYS_GRANITEMOE, KEY_READ, NAMES("num_local_experts")},
    {DEEPSEEK, KEY_READ, NAMES("n_routed_experts", "num_local_experts")},
    {KEYS_DEEPSEEK_V2, KEY_READ, NAMES("n_routed_experts", "num_experts", "topk_method")},
    {EXPERTS, KEY_READ, NAMES("num_experts_per_tok")},
    {KEYS_KIMI_LINEAR, KEY_READ,
     NAMES("num_experts_per_token", "moe_renormalize", "num_expert_group", "num_shared_experts")},
    {EXPERTS & ~WIDE, KEY_READ, NAMES("moe_intermediate_size")},
    {STEPS | BY_SIGMOID | KEYS_OLMOE, KEY_READ, NAMES("norm_topk_prob")},
    {KEYS_DEEPSEEK_V2, KEY_HARMLESS, NAMES("norm_topk_prob"), .why = "transformers divides by no sum"},
    {BY_SIGMOID | KEYS_DEEPSEEK_V2, KEY_READ,
     NAMES("routed_scaling_factor", "n_group", "topk_group", "n_shared_experts")},
    {BY_SIGMOID, KEY_HARMLESS, NAMES("topk_method"), .why = "transformers has one method"},
    {KEYS_QWEN2_MOE | KEYS_QWEN3_NEXT | KEYS_QWEN3_5_MOE, KEY_READ, NAMES("shared_expert_intermediate_size")},
    {KEYS_GPT_OSS, KEY_READ, NAMES("swiglu_alpha", "swiglu_limit")},
    {KEYS_GPT_OSS, KEY_HARMLESS, NAMES("hidden_act"), .why = "experts have an activation of their own"},
    {KEYS_MINIMAX_M2, KEY_READ, NAMES("rotary_dim")},
    {KEYS_GLM4_MOE, KEY_READ, NAMES("use_qk_norm")},
    {KEYS_QWEN3_5_MOE, KEY_HARMLESS, NAMES("intermediate_size"), .why = "every layer has experts"},
    {BALANCED, KEY_READ, NAMES("output_router_logits", "router_aux_loss_coef")},
    {EXPERTS, KEY_HARMLESS, NAMES("output_router_logits", "router_aux_loss_coef"),
     .why = "transformers adds no loss"},
    {KEYS_MIXTRAL | KEYS_MINIMAX_M2, KEY_REFUSED, NAMES("router_jitter_noise"), .neutral = NEUTRAL_ZERO,
     .why = "must be 0: noise on the router's input is not computed"},
    {KEYS_OLMOE, KEY_REFUSED, NAMES("clip_qkv"), .neutral = NEUTRAL_NULL,
     .why = "clipped queries, keys and values are not computed"},
    {BY_SIGMOID | KEYS_DEEPSEEK_V2, KEY_REFUSED, NAMES("moe_layer_freq"), .neutral = NEUTRAL_ONE,
     .why = "must be 1: transformers does not read it, and has experts in all layers behind the dense ones"},
    {KEYS_DEEPSEEK_V3 | KEYS_GLM4_MOE, KEY_HARMLESS, NAMES("num_mtp_layers", "num_nextn_predict_layers"),
     .why = drafts},
    {KEYS_KIMI_LINEAR, KEY_READ, NAMES("layer_types", "linear_attn_config")},
    {KEYS_KIMI_LINEAR, KEY_HARMLESS,
     NAMES("rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor",
           "original_max_position_embeddings"),
     .why = "no layer has positions"},
    {KEYS_KIMI_LINEAR, KEY_HARMLESS, NAMES("linear_conv_kernel_dim", "linear_head_dim", "linear_num_heads"),
     .why = "of layers of Kimi Delta Attention"},
    {KEYS_KIMI_LINEAR, KEY_HARMLESS, NAMES("model_max_length"), .why = "limits nothing here"},
    {KEYS_MINICPM3, KEY_READ, NAMES("scale_emb", "scale_depth", "dim_model_base")},
    {KEYS_YOUTU, KEY_HARMLESS, NAMES("embedding_initializer_range"), .why = "random weights of new models"},
    {KEYS_ALL, KEY_READ,
     NAMES("architectures", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
           "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings",
           "tie_word_embeddings", "rope_parameters", "quantization_config", "pad_token_id")},
    {ALL_BUT(COHERES), KEY_READ, NAMES("rms_norm_eps")},
    {COHERES, KEY_READ, NAMES("layer_norm_eps", "logit_scale")},
    {KEYS_COHERE, KEY_REFUSED, NAMES("use_qk_norm"), .neutral = NEUTRAL_FALSE,
     .why = "norms with a gain for each head are not computed"},
    {KEYS_GEMMA4, KEY_READ,
     NAMES("hidden_activation", "final_logit_softcapping", "global_head_dim", "num_global_key_value_heads",
           "attention_k_eq_v", "per_layer_config", "use_bidirectional_attention")},
    {KEYS_GEMMA4, KEY_REFUSED, NAMES("hidden_size_per_layer_input"), .neutral = NEUTRAL_GIVEN_ZERO,
     .why = "must be 0: embeddings of each layer are not computed"},
    {KEYS_GEMMA4, KEY_REFUSED, NAMES("num_kv_shared_layers"), .neutral = NEUTRAL_ZERO,
     .why = "layers that share keys and values are not supported"},
    {KEYS_GEMMA4, KEY_REFUSED, NAMES("enable_moe_block"), .neutral = NEUTRAL_FALSE,
     .why = "experts are not computed"},
    {KEYS_GEMMA4, KEY_REFUSED, NAMES("rope_scaling", "rope_theta", "partial_rotary_factor"),
     .neutral = NEUTRAL_NULL, .why = "transformers reads rope_parameters alone in this model type"},
    {KEYS_GEMMA4, KEY_HARMLESS,
     NAMES("vocab_size_per_layer_input", "use_double_wide_mlp", "num_experts", "top_k_experts",
           "moe_intermediate_size"),
     .why = "belongs to hidden_size_per_layer_input, num_kv_shared_layers or enable_moe_block"},
    {ALL_BUT(KEYS_GEMMA4), KEY_READ, NAMES("rope_scaling", "rope_theta", "partial_rotary_factor")},
    {ALL_BUT(KEYS_GEMMA3 | KEYS_OLMO3 | KEYS_GEMMA4), KEY_READ, NAMES("original_max_position_embeddings")},
    {KEYS_ALL, KEY_HARMLESS, NAMES("original_max_position_embeddings"),
     .why = "is read in RoPE's own object alone"},
    {KEYS_GEMMA2, KEY_READ,
     NAMES("hidden_activation", "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping")},
    {KEYS_GRANITE | KEYS_GRANITE_SWA | KEYS_GRANITEMOE, KEY_READ,
     NAMES("attention_multiplier", "embedding_multiplier")},
    {KEYS_GRANITE_SWA, KEY_READ, NAMES("layer_rope_theta")},
    {KEYS_GRANITE | KEYS_GRANITEMOE, KEY_READ, NAMES("residual_multiplier", "logits_scaling")},
    {KEYS_SMOLLM3, KEY_READ, NAMES("no_rope_layers", "no_rope_layer_interval")},
    {KEYS_SMOLLM3, KEY_REFUSED, NAMES("use_sliding_window"), .neutral = NEUTRAL_FALSE,
     .why = "windows of layers without positions are not read"},
    {KEYS_SMOLLM3, KEY_REFUSED, NAMES("layer_types"), .neutral = NEUTRAL_FULL,
     .why = "windows of layers without positions are not read"},
    {KEYS_EXAONE4 | KEYS_COHERE2, KEY_READ, NAMES("sliding_window_pattern")},
    {KEYS_GEMMA3, KEY_READ,
     NAMES("rope_local_base_freq", "hidden_activation", "query_pre_attn_scalar", "sliding_window_pattern")},
    {ALL_BUT(KEYS_GEMMA2 | KEYS_GEMMA3 | KEYS_GEMMA4), KEY_READ, NAMES("hidden_act")},
    {WINDOWS, KEY_READ, NAMES("sliding_window")},
    {KEYS_ALL, KEY_HARMLESS, NAMES("sliding_window", "attention_chunk_size", "number_of_conv_states", "use_cache"),
     .why = "of the cache in decoding"},
    {LISTED | KEYS_MISTRAL | DELTA, KEY_READ, NAMES("layer_types")},
    {DELTA & ~KEYS_OLMO_HYBRID, KEY_READ, NAMES("full_attention_interval")},
    {DELTA, KEY_READ,
     NAMES("linear_conv_kernel_dim", "linear_key_head_dim", "linear_value_head_dim", "linear_num_key_heads",
           "linear_num_value_heads")},
    {KEYS_OLMO_HYBRID, KEY_READ, NAMES("linear_allow_neg_eigval")},
    {KEYS_OLMO_HYBRID, KEY_HARMLESS,
     NAMES("linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max", "linear_dt_init_floor"),
     .why = "random weights of new models"},
    {SWITCHED, KEY_READ, NAMES("use_sliding_window")},
    {KEYS_QWEN2 | KEYS_QWEN3 | KEYS_QWEN2_MOE | KEYS_DOTS1, KEY_READ, NAMES("max_window_layers")},
    {ALL_BUT(WITHOUT_BIAS | KEYS_QWEN2), KEY_READ, NAMES("attention_bias")},
    {KEYS_QWEN2_MOE, KEY_READ, NAMES("qkv_bias")},
    {KEYS_LLAMA | KEYS_GRANITE | KEYS_GRANITE_SWA | KEYS_SMOLLM3 | KEYS_SEED_OSS | KEYS_DEEPSEEK_V2 |
         KEYS_MINICPM3 | KEYS_INTERNLM3,
     KEY_READ, NAMES("mlp_bias")},
    {KEYS_SEED_OSS, KEY_READ, NAMES("attention_out_bias")},
    {KEYS_ERNIE4_5 | KEYS_ERNIE4_5_MOE, KEY_READ, NAMES("use_bias")},
    {KEYS_INTERNLM3, KEY_READ, NAMES("qkv_bias", "bias")},
    {KEYS_GEMMA3, KEY_REFUSED, NAMES("attn_logit_softcapping", "final_logit_softcapping"), .neutral = NEUTRAL_NULL,
     .why = "transformers caps Gemma 2's scores alone"},
    {KEYS_ALL, KEY_REFUSED, NAMES("is_causal"), .neutral = NEUTRAL_TRUE,
     .why = "queries see no later keys here, so it must be true"},
    {KEYS_GEMMA | KEYS_GEMMA2 | KEYS_GEMMA3, KEY_REFUSED, NAMES("use_bidirectional_attention"),
     .neutral = NEUTRAL_FALSE, .why = "queries see no later keys here"},
    {KEYS_ALL, KEY_REFUSED, NAMES("is_encoder_decoder"), .neutral = NEUTRAL_FALSE,
     .why = "encoders are not computed"},
    {KEYS_ALL, KEY_REFUSED, NAMES("per_layer_config"), .neutral = NEUTRAL_NULL,
     .why = "layers of different shapes are not computed"},
    {KEYS_ALL, KEY_REFUSED, NAMES("kv_sharing_modes"), .neutral = NEUTRAL_NULL,
     .why = "layers that share keys and values are not supported"},
    {KEYS_ALL, KEY_REFUSED, NAMES("configuration_files", "text_config", "text_encoder", "decoder", "generator"),
     .neutral = NEUTRAL_NULL, .why = other},
    {KEYS_ALL, KEY_REFUSED, NAMES("transformers_weights"), .neutral = NEUTRAL_NULL,
     .why = "names another file of weights, which is not read"},
    {KEYS_ALL, KEY_REFUSED, NAMES("_heterogeneity_spec", "_rope_type_labels"), .neutral = NEUTRAL_NULL,
     .why = internal},
    {KEYS_ALL, KEY_HARMLESS, NAMES("_attn_implementation", "_attn_implementation_internal", "attn_implementation"),
     .why = "chooses between implementations of the same attention"},
    {KEYS_ALL, KEY_HARMLESS,
     NAMES("_experts_implementation", "_experts_implementation_internal", "experts_implementation"),
     .why = "chooses between implementations of the same experts"},
    {KEYS_ALL, KEY_HARMLESS, NAMES("_commit_hash", "_name_or_path", "name_or_path", "transformers_version"),
     .why = "names the model's origin"},
    // transformers has code for these families and uses it unless told to trust the folder's.
    {KEYS_ALL, KEY_HARMLESS, NAMES("auto_map"), .why = code},
    {KEYS_ALL, KEY_HARMLESS,
     NAMES("_output_attentions", "output_attentions", "output_hidden_states", "output_router_logits",
           "return_dict"),
     .why = "says what is returned"},
    {KEYS_ALL, KEY_HARMLESS, NAMES("_post_init_done"), .why = internal},
    {KEYS_GEMMA3, KEY_HARMLESS, NAMES("_sliding_window_pattern"), .why = internal},
    {KEYS_ALL, KEY_HARMLESS,
     NAMES("allow_global_per_layer_attribute_access", "serialize_explicit_per_layer_config"),
     .why = "belongs to per_layer_config"},
    {KEYS_ALL, KEY_HARMLESS, NAMES("attention_dropout"), .why = dropout},
    {KEYS_PHI3, KEY_HARMLESS, NAMES("resid_pdrop", "embd_pdrop"), .why = dropout},
    {KEYS_SEED_OSS, KEY_HARMLESS, NAMES("residual_dropout"), .why = dropout},
    {KEYS_ALL, KEY_HARMLESS, NAMES("bos_token_id", "eos_token_id", "sep_token_id"), .why = "token ids"},
    {KEYS_ALL, KEY_HARMLESS, NAMES("chunk_size_feed_forward"), .why = "no MLP of these families is cut by it"},
    {KEYS_LLAMA | KEYS_SEED_OSS | LATENT, KEY_HARMLESS, NAMES("pretraining_tp"),
     .why = "cuts products whose sum is the same"},
    {KEYS_ALL, KEY_HARMLESS, NAMES("distributed_config"), .why = "spreads a model over devices"},
    {KEYS_ALL, KEY_HARMLESS, NAMES("fusion_config"), .why = "fuses kernels"},
    {KEYS_ALL, KEY_HARMLESS, NAMES("gradient_checkpointing"), .why = "is what --method chooses"},
    {KEYS_ALL, KEY_HARMLESS, NAMES("dtype", "torch_dtype"), .why = "numbers are of --dtype"},
    {KEYS_ALL, KEY_HARMLESS, NAMES("init_std", "initializer_factor", "initializer_range"),
     .why = "random weights of new models"},
    {KEYS_ALL, KEY_HARMLESS, NAMES("id2label", "label2id", "num_labels", "problem_type"), .why = "of classifiers"},
    {KEYS_ALL, KEY_HARMLESS,
     NAMES("embed_dim", "num_heads", "features_only", "num_channels", "out_indices", "pretrained_cfg",
           "standardize", "vision_aspect_ratio", "vision_feature_layer", "vision_feature_select_strategy"),
     .why = "of images"},
    {KEYS_ALL, KEY_HARMLESS, NAMES("encoder"), .why = "belongs to is_encoder_decoder"},
    {KEYS_ALL, KEY_HARMLESS,
     NAMES("first_k_dense_replace", "mlp_layer_types", "mtp_layer_types", "mtp_mlp_layer_types",
           "mtp_per_layer_config", "num_mtp_layers", "qk_head_dim"),
     .why = drafts},
    // Keys of other decoders: a file with them is meant for another model than transformers would build.
    {WITHOUT_BIAS, KEY_REFUSED, NAMES("attention_bias"), .neutral = NEUTRAL_FALSE},
    {KEYS_ALL, KEY_REFUSED,
     NAMES("mlp_bias", "lm_head_bias", "use_bidirectional_attention", "qk_layernorm", "alibi", "rope_interleave",
           "rope_interleaved", "use_parallel_residual", "parallel_attn"),
     .neutral = NEUTRAL_FALSE},
    {ALL_BUT(KEYS_QWEN2), KEY_REFUSED, NAMES("qkv_bias"), .neutral = NEUTRAL_FALSE},
    {KEYS_ALL, KEY_REFUSED,
     NAMES("attn_logit_softcapping", "final_logit_softcapping", "clip_qkv", "no_rope_layers",
           "attention_multiplier", "scale_depth"),
     .neutral = NEUTRAL_NULL},
    {KEYS_ALL, KEY_REFUSED, NAMES("layer_types"), .neutral = NEUTRAL_FULL},
    {ALL_BUT(WINDOWS), KEY_REFUSED, NAMES("use_sliding_window"), .neutral = NEUTRAL_FALSE},
    {KEYS_LLAMA | KEYS_MISTRAL | KEYS_MINISTRAL | KEYS_PHI3 | KEYS_QWEN2 | KEYS_GEMMA, KEY_REFUSED,
     NAMES("use_qk_norm"), .neutral = NEUTRAL_FALSE},
    {KEYS_ALL, KEY_REFUSED,
     NAMES("rotary_pct", "embedding_multiplier", "residual_multiplier", "logits_scaling", "logit_scale",
           "scale_emb"),
     .neutral = NEUTRAL_ONE},
    {KEYS_ALL, KEY_REFUSED,
     NAMES("num_experts", "num_local_experts", "n_routed_experts", "kv_lora_rank", "q_lora_rank"),
     .neutral = NEUTRAL_ZERO},
    {0},
};

struct json_field config_key_of(struct json_field object, const char *key)
{
    struct json_field field = json_field_get(object, key);
    field.value = json_field_given(field) ? field.value : NULL;
    return field;
}

const struct config_key *config_key_find(key_set set, const char *name)
{
    for (const struct config_key *key = config_keys; key->names; key++)
        for (const char *const *own = key->names; (key->sets & set) && *own; own++)
            if (strcmp(*own, name) == 0)
                return key;
    return NULL;
}

static bool is_full(const json_t *types)
{
    size_t i;
    json_t *type;
    json_array_foreach(types, i, type)
    {
        if (!json_is_string(type) || strcmp(json_string_value(type), "full_attention") != 0)
            return false;
    }
    return json_is_array(types);
}

static bool is_neutral(const json_t *value, enum key_neutral neutral)
{
    switch (neutral) {
    case NEUTRAL_NULL:
        break;
    case NEUTRAL_FALSE:
        return json_is_false(value) || json_is_null(value);
    case NEUTRAL_TRUE:
        return json_is_true(value);
    case NEUTRAL_FULL:
        return is_full(value) || json_is_null(value);
    case NEUTRAL_GIVEN_ZERO:
        return json_is_integer(value) && json_integer_value(value) == 0;
    case NEUTRAL_ZERO:
    case NEUTRAL_ONE:
        return json_is_null(value) ||
               (json_is_number(value) && json_number_value(value) == (neutral == NEUTRAL_ONE));
    }
    return json_is_null(value);
}

bool config_keys_check(struct json_field root, key_set set, const char *model_type, struct status *status)
{
    const char *name;
    json_t *value;
    json_object_foreach(root.value, name, value)
    {
        const struct config_key *key = config_key_find(set, name);
        if (!key || key->use != KEY_REFUSED || is_neutral(value, key->neutral))
            continue;
        struct json_field field = json_field_get(root, name);
        return key->why ? json_field_fail(field, status, "%s", key->why)
                        : json_field_fail(field, status,
                                          "belongs to other model types: transformers does not read it in a %s. "
                                          "Leave it out if the model is one",
                                          model_type);
    }
    return true;
}
