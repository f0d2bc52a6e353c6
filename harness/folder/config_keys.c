#include "harness/folder/config_keys.h"
#include <string.h>

#define WINDOWS    (KEYS_MISTRAL | KEYS_MINISTRAL | KEYS_PHI3 | KEYS_QWEN2 | KEYS_QWEN3 | KEYS_GEMMA3 | KEYS_OLMO3)
#define LISTED     (KEYS_MINISTRAL | KEYS_QWEN2 | KEYS_QWEN3 | KEYS_GEMMA3 | KEYS_OLMO3)
#define SWITCHED   (KEYS_QWEN2 | KEYS_QWEN3)
#define ALL_BUT(s) (KEYS_ALL & ~(unsigned)(s))

static const char attention[] = "chooses between implementations of the same attention", code[] = "names code",
                  dropout[] = "nothing is dropped out", returned[] = "says what is returned",
                  tokens[] = "token ids", origin[] = "says where the model is from",
                  kind[] = "numbers are of --dtype", start[] = "random weights of new models",
                  classes[] = "of classifiers", caps[] = "caps by a tanh are not computed", images[] = "of images",
                  drafts[] = "of heads that draft", decoding[] = "of the cache in decoding",
                  internal[] = "is internal to transformers, and no file has it",
                  other[] = "names another configuration, which is not read";

// The first row of a name that has the family counts.
const struct config_key config_keys[] = {
    {"architectures", KEYS_ALL, .use = KEY_READ},
    {"vocab_size", KEYS_ALL, .use = KEY_READ},
    {"hidden_size", KEYS_ALL, .use = KEY_READ},
    {"intermediate_size", KEYS_ALL, .use = KEY_READ},
    {"num_hidden_layers", KEYS_ALL, .use = KEY_READ},
    {"num_attention_heads", KEYS_ALL, .use = KEY_READ},
    {"num_key_value_heads", KEYS_ALL, .use = KEY_READ},
    {"head_dim", KEYS_ALL, .use = KEY_READ},
    {"max_position_embeddings", KEYS_ALL, .use = KEY_READ},
    {"original_max_position_embeddings", ALL_BUT(KEYS_PHI3 | KEYS_GEMMA3 | KEYS_OLMO3), .use = KEY_READ},
    {"original_max_position_embeddings", KEYS_ALL, .use = KEY_HARMLESS, .why = "only longrope would read it"},
    {"rms_norm_eps", KEYS_ALL, .use = KEY_READ},
    {"tie_word_embeddings", KEYS_ALL, .use = KEY_READ},
    {"rope_parameters", KEYS_ALL, .use = KEY_READ},
    {"rope_scaling", KEYS_ALL, .use = KEY_READ},
    {"rope_theta", KEYS_ALL, .use = KEY_READ},
    {"partial_rotary_factor", KEYS_ALL, .use = KEY_READ},
    {"rope_local_base_freq", KEYS_GEMMA3, .use = KEY_READ},
    {"hidden_act", ALL_BUT(KEYS_GEMMA3), .use = KEY_READ},
    {"hidden_activation", KEYS_GEMMA3, .use = KEY_READ},
    {"query_pre_attn_scalar", KEYS_GEMMA3, .use = KEY_READ},
    {"sliding_window", WINDOWS, .use = KEY_READ},
    {"sliding_window", KEYS_ALL, .use = KEY_HARMLESS, .why = decoding},
    {"layer_types", LISTED | KEYS_MISTRAL, .use = KEY_READ},
    {"use_sliding_window", SWITCHED, .use = KEY_READ},
    {"max_window_layers", SWITCHED, .use = KEY_READ},
    {"sliding_window_pattern", KEYS_GEMMA3, .use = KEY_READ},
    {"quantization_config", KEYS_ALL, .use = KEY_READ},
    {"pad_token_id", KEYS_ALL, .use = KEY_READ},

    {"attention_bias", ALL_BUT(KEYS_MISTRAL | KEYS_MINISTRAL | KEYS_PHI3 | KEYS_QWEN2), .use = KEY_REFUSED,
     .neutral = NEUTRAL_FALSE, .why = "a bias on o_proj, which this implies, is not supported"},
    {"mlp_bias", KEYS_LLAMA, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE,
     .why = "biases in the MLP are not supported"},
    {"attn_logit_softcapping", KEYS_GEMMA3, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL, .why = caps},
    {"final_logit_softcapping", KEYS_GEMMA3, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL, .why = caps},
    {"is_causal", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_TRUE,
     .why = "queries see no later keys here, so it must be true"},
    {"use_bidirectional_attention", KEYS_GEMMA | KEYS_GEMMA3, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE,
     .why = "queries see no later keys here"},
    {"is_encoder_decoder", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE,
     .why = "encoders are not computed"},
    {"per_layer_config", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL,
     .why = "layers of different shapes are not computed"},
    {"kv_sharing_modes", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL,
     .why = "each layer has keys and values of its own here"},
    {"configuration_files", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL, .why = other},
    {"text_config", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL, .why = other},
    {"text_encoder", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL, .why = other},
    {"decoder", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL, .why = other},
    {"generator", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL, .why = other},
    {"transformers_weights", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL,
     .why = "names another file of weights, which is not read"},
    {"_heterogeneity_spec", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL, .why = internal},
    {"_rope_type_labels", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL, .why = internal},

    {"_attn_implementation", KEYS_ALL, .use = KEY_HARMLESS, .why = attention},
    {"_attn_implementation_internal", KEYS_ALL, .use = KEY_HARMLESS, .why = attention},
    {"attn_implementation", KEYS_ALL, .use = KEY_HARMLESS, .why = attention},
    {"_experts_implementation", KEYS_ALL, .use = KEY_HARMLESS, .why = "there are no experts"},
    {"_experts_implementation_internal", KEYS_ALL, .use = KEY_HARMLESS, .why = "there are no experts"},
    {"experts_implementation", KEYS_ALL, .use = KEY_HARMLESS, .why = "there are no experts"},
    {"_commit_hash", KEYS_ALL, .use = KEY_HARMLESS, .why = origin},
    {"_name_or_path", KEYS_ALL, .use = KEY_HARMLESS, .why = origin},
    {"name_or_path", KEYS_ALL, .use = KEY_HARMLESS, .why = origin},
    {"transformers_version", KEYS_ALL, .use = KEY_HARMLESS, .why = origin},
    // transformers has these families in its own code, which it takes unless it is told to trust the folder's.
    {"auto_map", KEYS_ALL, .use = KEY_HARMLESS, .why = code},
    {"_output_attentions", KEYS_ALL, .use = KEY_HARMLESS, .why = returned},
    {"output_attentions", KEYS_ALL, .use = KEY_HARMLESS, .why = returned},
    {"output_hidden_states", KEYS_ALL, .use = KEY_HARMLESS, .why = returned},
    {"return_dict", KEYS_ALL, .use = KEY_HARMLESS, .why = returned},
    {"_post_init_done", KEYS_ALL, .use = KEY_HARMLESS, .why = internal},
    {"_sliding_window_pattern", KEYS_GEMMA3, .use = KEY_HARMLESS, .why = internal},
    {"allow_global_per_layer_attribute_access", KEYS_ALL, .use = KEY_HARMLESS,
     .why = "belongs to per_layer_config"},
    {"serialize_explicit_per_layer_config", KEYS_ALL, .use = KEY_HARMLESS, .why = "belongs to per_layer_config"},
    {"attention_chunk_size", KEYS_ALL, .use = KEY_HARMLESS, .why = decoding},
    {"number_of_conv_states", KEYS_ALL, .use = KEY_HARMLESS, .why = decoding},
    {"use_cache", KEYS_ALL, .use = KEY_HARMLESS, .why = decoding},
    {"attention_dropout", KEYS_ALL, .use = KEY_HARMLESS, .why = dropout},
    {"resid_pdrop", KEYS_PHI3, .use = KEY_HARMLESS, .why = dropout},
    {"embd_pdrop", KEYS_PHI3, .use = KEY_HARMLESS, .why = dropout},
    {"bos_token_id", KEYS_ALL, .use = KEY_HARMLESS, .why = tokens},
    {"eos_token_id", KEYS_ALL, .use = KEY_HARMLESS, .why = tokens},
    {"sep_token_id", KEYS_ALL, .use = KEY_HARMLESS, .why = tokens},
    {"chunk_size_feed_forward", KEYS_ALL, .use = KEY_HARMLESS, .why = "no MLP of these families is cut by it"},
    {"pretraining_tp", KEYS_LLAMA, .use = KEY_HARMLESS, .why = "cuts products whose sum is the same"},
    {"distributed_config", KEYS_ALL, .use = KEY_HARMLESS, .why = "spreads a model over devices"},
    {"fusion_config", KEYS_ALL, .use = KEY_HARMLESS, .why = "fuses kernels"},
    {"gradient_checkpointing", KEYS_ALL, .use = KEY_HARMLESS, .why = "is what --method chooses"},
    {"dtype", KEYS_ALL, .use = KEY_HARMLESS, .why = kind},
    {"torch_dtype", KEYS_ALL, .use = KEY_HARMLESS, .why = kind},
    {"init_std", KEYS_ALL, .use = KEY_HARMLESS, .why = start},
    {"initializer_factor", KEYS_ALL, .use = KEY_HARMLESS, .why = start},
    {"initializer_range", KEYS_ALL, .use = KEY_HARMLESS, .why = start},
    {"id2label", KEYS_ALL, .use = KEY_HARMLESS, .why = classes},
    {"label2id", KEYS_ALL, .use = KEY_HARMLESS, .why = classes},
    {"num_labels", KEYS_ALL, .use = KEY_HARMLESS, .why = classes},
    {"problem_type", KEYS_ALL, .use = KEY_HARMLESS, .why = classes},
    {"embed_dim", KEYS_ALL, .use = KEY_HARMLESS, .why = images},
    {"num_heads", KEYS_ALL, .use = KEY_HARMLESS, .why = images},
    {"encoder", KEYS_ALL, .use = KEY_HARMLESS, .why = "belongs to is_encoder_decoder"},
    {"features_only", KEYS_ALL, .use = KEY_HARMLESS, .why = images},
    {"num_channels", KEYS_ALL, .use = KEY_HARMLESS, .why = images},
    {"out_indices", KEYS_ALL, .use = KEY_HARMLESS, .why = images},
    {"pretrained_cfg", KEYS_ALL, .use = KEY_HARMLESS, .why = images},
    {"vision_aspect_ratio", KEYS_ALL, .use = KEY_HARMLESS, .why = images},
    {"vision_feature_layer", KEYS_ALL, .use = KEY_HARMLESS, .why = images},
    {"vision_feature_select_strategy", KEYS_ALL, .use = KEY_HARMLESS, .why = images},
    {"first_k_dense_replace", KEYS_ALL, .use = KEY_HARMLESS, .why = drafts},
    {"mlp_layer_types", KEYS_ALL, .use = KEY_HARMLESS, .why = drafts},
    {"mtp_layer_types", KEYS_ALL, .use = KEY_HARMLESS, .why = drafts},
    {"mtp_mlp_layer_types", KEYS_ALL, .use = KEY_HARMLESS, .why = drafts},
    {"mtp_per_layer_config", KEYS_ALL, .use = KEY_HARMLESS, .why = drafts},
    {"num_mtp_layers", KEYS_ALL, .use = KEY_HARMLESS, .why = drafts},
    {"qk_head_dim", KEYS_ALL, .use = KEY_HARMLESS, .why = drafts},

    // Keys of other decoders, by which whoever wrote them means another model than transformers makes of the file.
    {"attention_bias", KEYS_MISTRAL | KEYS_MINISTRAL | KEYS_PHI3, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"mlp_bias", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"qkv_bias", ALL_BUT(KEYS_QWEN2), .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"lm_head_bias", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"attn_logit_softcapping", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL},
    {"final_logit_softcapping", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL},
    {"use_bidirectional_attention", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"layer_types", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_FULL},
    {"use_sliding_window", ALL_BUT(WINDOWS), .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"use_qk_norm", KEYS_LLAMA | KEYS_MISTRAL | KEYS_MINISTRAL | KEYS_PHI3 | KEYS_QWEN2 | KEYS_GEMMA,
     .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"qk_layernorm", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"clip_qkv", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL},
    {"alibi", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"rope_interleave", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"rope_interleaved", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"rotary_pct", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_ONE},
    {"no_rope_layers", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL},
    {"use_parallel_residual", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"parallel_attn", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_FALSE},
    {"attention_multiplier", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL},
    {"embedding_multiplier", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_ONE},
    {"residual_multiplier", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_ONE},
    {"logits_scaling", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_ONE},
    {"logit_scale", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_ONE},
    {"scale_emb", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_ONE},
    {"scale_depth", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_NULL},
    {"num_experts", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_ZERO},
    {"num_local_experts", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_ZERO},
    {"n_routed_experts", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_ZERO},
    {"kv_lora_rank", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_ZERO},
    {"q_lora_rank", KEYS_ALL, .use = KEY_REFUSED, .neutral = NEUTRAL_ZERO},
    {0},
};

struct json_field config_key_of(struct json_field object, const char *key)
{
    struct json_field field = json_field_get(object, key);
    field.value = json_field_given(field) ? field.value : NULL;
    return field;
}

const struct config_key *config_key_find(enum key_set set, const char *name)
{
    for (const struct config_key *key = config_keys; key->name; key++)
        if ((key->sets & set) && strcmp(key->name, name) == 0)
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
    case NEUTRAL_ZERO:
    case NEUTRAL_ONE:
        return json_is_null(value) ||
               (json_is_number(value) && json_number_value(value) == (neutral == NEUTRAL_ONE));
    }
    return json_is_null(value);
}

bool config_keys_check(struct json_field root, enum key_set set, const char *model_type, struct status *status)
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
