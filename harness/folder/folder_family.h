// Folder family: properties of a model_type of transformers, and its configuration class's defaults for absent
// keys.
#pragma once
#include "harness/folder/config_keys.h"
#include "kernels/model/config.h"

// How a file specifies sliding windows. NONE: never. ALL: every layer, by the window's length. GIVEN: the same,
// none if the length is absent. LISTED: the layers of layer_types, else all. SOME: with use_sliding_window, layers
// from max_window_layers on or those of layer_types. PATTERN: those of layer_types, else all but every n-th.
// SWITCHED: every layer, with use_sliding_window. ALTERNATE: with it, those of layer_types, else every other layer,
// the lowest too, below max_window_layers. ABOVE: those of layer_types, else from max_window_layers on.
enum sliding {
    SLIDING_NONE,
    SLIDING_ALL,
    SLIDING_GIVEN,
    SLIDING_LISTED,
    SLIDING_SOME,
    SLIDING_PATTERN,
    SLIDING_SWITCHED,
    SLIDING_ALTERNATE,
    SLIDING_ABOVE
};

// Layers without positions. NEVER: none. LISTED: those of no_rope_layers, else every n-th by its interval. FULL:
// those without a window, if sliding_window is not null. UNWINDOWED: those without a window. NULL_THETA: all, if
// rope_theta is null.
enum no_rope { NO_ROPE_NEVER, NO_ROPE_LISTED, NO_ROPE_FULL, NO_ROPE_UNWINDOWED, NO_ROPE_NULL_THETA };

// Which layers are mixtures of experts. NONE: none. ALL: all. BEHIND: those from first_k_dense_replace on. LISTED:
// those that mlp_layer_types calls sparse, else as BEHIND. STEPS: every n-th, by decoder_sparse_step, but for those
// of mlp_only_layers. BETWEEN: every n-th from moe_layer_start_index to moe_layer_end_index.
enum experts_of_layers {
    EXPERTS_NONE,
    EXPERTS_ALL,
    EXPERTS_BEHIND,
    EXPERTS_LISTED,
    EXPERTS_STEPS,
    EXPERTS_BETWEEN
};

// How files name the tensors of a mixture (expert_weights.h).
enum expert_files {
    FILES_QWEN,     // mlp.experts.0.gate_proj, mlp.shared_expert
    FILES_DEEPSEEK, // the same, mlp.shared_experts
    FILES_ERNIE,    // the same, mlp.moe_statics
    FILES_MIXTRAL,  // block_sparse_moe.experts.0.w1
    FILES_KIMI,     // the same, with shared_experts
    FILES_MINIMAX,  // the same, block_sparse_moe.e_score_correction_bias
    FILES_GRANITE,  // block_sparse_moe.input_linear of all experts
    FILES_GPT_OSS   // mlp.experts.gate_up_proj of all experts, transposed
};

// A family's mixtures of experts: its keys, each with another name that transformers reads, and their defaults.
struct mixture {
    enum experts_of_layers layers;
    enum expert_files files;
    const char *count_keys[2], *chosen_keys[2]; // experts, and those of a token
    const char *width_key;                      // of an expert; NULL: intermediate_size
    size_t count, chosen, width;                // 0: required
    size_t dense_layers;                        // default of first_k_dense_replace
    bool dense_fixed;                           // which is not read
    // The width of the shared expert, or how many experts' widths it has. NULL: there is none.
    const char *shared_key, *shared_keys[2];
    size_t shared;
    bool shared_required, shared_gated;
    enum router_score score;
    const char *norm_keys[2]; // whether weights are divided by their sum; NULL: always as the default
    bool normalised;
    double added, least; // of struct routing; least is the default of moe_norm_min if that is a key
    bool least_keyed;
    double scale; // default of routed_scaling_factor; 0: it has none
    // Defaults of n_group and topk_group, whose choice is by the sum of group_best scores; by topk_method, if that
    // is a key. group_best 0: there are no groups.
    const char *group_keys[2];
    size_t groups, top_groups, group_best;
    bool group_method;
    // Default of router_aux_loss_coef, of the loss that transformers adds where output_router_logits is true; 0:
    // the class has none.
    double aux_loss;
    bool corrected; // by e_score_correction_bias
    bool clamped;   // gpt-oss: swiglu_alpha and swiglu_limit, and biases of the router and of experts
};

struct family {
    const char *model_type, *architecture;
    key_set keys;
    bool qkv_bias, qk_norm, whole_qk_norm, unit_offset, centred, parallel, layer_scalars, tied;
    bool fused;         // its files fuse q, k and v, and gate and up
    bool gate_up_fused; // its files fuse gate and up alone
    bool delta_fused;   // its files fuse the projections of Gated DeltaNet by heads
    bool o_bias;        // default
    bool qk_norm_keyed; // by use_qk_norm; qk_norm is the default
    bool rotary_keyed;  // by rotary_dim, a number of a head's
    bool glm_norms;     // struct config's
    enum rope_pairs rope;
    double partial; // default of partial_rotary_factor; 0: whole heads turn
    enum no_rope no_rope;
    enum norms norms;
    const char *activation_key; // NULL: hidden_act
    enum activation activation;
    bool gelu_is_tanh;     // "gelu" means the tanh approximation
    bool scales_embedding; // by sqrt(width)
    bool scales_queries;   // attention's scale is 1 / sqrt(query_pre_attn_scalar)
    // Defaults of attn_logit_softcapping and final_logit_softcapping; 0: it does not cap.
    double cap, logit_cap;
    bool caps_logits;    // by final_logit_softcapping, which has no default
    double logits_scale; // default of logit_scale; 0: it has none
    // Gemma 4: layers without a window have heads of their own, and may have values that are keys; attention's
    // scale is 1, and values are normed.
    bool global_heads;
    bool sinks;              // of each head, in the softmax
    bool multiplies;         // scores by attention_multiplier, in place of 1 / sqrt(head_dim), and embeddings
    size_t kv_heads;         // 0: as many as heads
    size_t head_dim;         // 0: hidden_size / num_attention_heads
    const char *epsilon_key; // NULL: rms_norm_eps
    double norm_epsilon, rope_theta;
    double proportional;        // share of a head that turns without rope_parameters in layers without a window
    double local_rope_theta;    // of layers with a window, which have no scaling; 0: the same
    const char *local_rope_key; // NULL: always that value
    enum sliding sliding;
    size_t window;           // default of sliding_window; 0: 4096
    size_t full_each;        // SLIDING_PATTERN: n
    bool full_first;         // of n layers the first has no window, not the last
    bool full_last;          // the highest layer has none, whatever it is said to have
    const char *pattern_key; // its key; NULL: none
    bool scales_positions;   // of queries, by llama_4_scaling_beta in RoPE's object
    bool default_rope;       // transformers supports only longrope scaling
    size_t original_context; // default of original_max_position_embeddings, which is of the root alone; 0: none
    size_t max_context;
    bool padded; // transformers defaults pad_token_id to `pad`
    size_t pad;
    // Defaults of hidden_size, num_hidden_layers, num_attention_heads, intermediate_size and vocab_size of a
    // text_config; 0: required.
    size_t sizes[5];
    // RoPE has a position per image axis (M-RoPE, Qwen2-VL). For text all of them equal the token's position, so it
    // is RoPE.
    bool axes;
    // Latent attention: defaults of q_lora_rank (0: null), kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim and
    // v_head_dim (0: hidden_size / num_attention_heads); kv_rank 0: it has none.
    struct latent_sizes {
        size_t q_rank, kv_rank, nope, rope, value;
    } latent;
    bool interleaves;              // rope_interleave is read, by default true
    const struct mixture *mixture; // NULL: no layer is a mixture of experts
    bool kda;                      // some layers are of Kimi Delta Attention
    bool depth_scaled;             // MiniCPM: scale_emb, scale_depth and dim_model_base
    // Attention's output is gated; layers are of Gated DeltaNet but for those of layer_types, else every n-th.
    bool gated, delta;
    bool split; // OLMo Hybrid's layers of Gated DeltaNet
};
// Epsilon of the gated norm of split layers, whatever rms_norm_eps is.
#define FAMILY_SPLIT_EPSILON 1e-5
// Ending with a NULL model_type.
extern const struct family families[];
// The family that such a config is written as; NULL: none has all of it.
const struct family *folder_family_of(const struct config *config);

// Keys of config.json that switch biases of projections. Ending with a NULL key.
struct bias_key {
    key_set sets;
    const char *key;
    bool qkv, o, mlp;
};
extern const struct bias_key bias_keys[];
// The config's value of a key: whether the first of the projections has a bias. Sets the biases of all of them.
bool family_bias(const struct bias_key *key, const struct config *config);
void family_set_bias(const struct bias_key *key, struct config *config, bool bias);

// Models of images or sound and text, whose text_config is a language model of a family; only that is read.
struct composite {
    const char *model_type;
    const char *text_type; // default model_type of text_config; if `fixed`, of all
    bool fixed;
    bool flat;             // older files have the keys of text_config beside it
    bool tied;             // default of tie_word_embeddings
    bool tied_by_text;     // tie_word_embeddings of text_config counts too
    double norm_epsilon;   // default for text_config; 0: its family's
    const char *submodule; // the language model's name in `model`; NULL: language_model
};
// Ending with a NULL model_type.
extern const struct composite composites[];

// Why a known decoder is not read, as the end of a sentence that begins with its model_type; NULL for any other
// name. Known are those of transformers 5.24, and others that are published.
const char *family_unread(const char *model_type);

// transformers' names of enum activation; layer_types without and with a window. Ending in NULL.
extern const char *const family_activations[], *const family_layer_types[];
// Factor of queries for a query_pre_attn_scalar; and its inverse.
double family_query_scale(const struct layer_kind *kind, double scalar);
double family_query_scalar(const struct layer_kind *kind);
// Factor of scores that mscale_all_dim gives latent attention, 0: 1; and its inverse, for a factor above 1.
double family_score_scale(double factor, double mscale_all_dim);
double family_mscale_all_dim(const struct layer_kind *kind);
