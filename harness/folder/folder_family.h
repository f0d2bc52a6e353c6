// Folder family: what a model_type of transformers implies, and what its configuration class assumes for keys that
// are left out.
#pragma once
#include "harness/folder/config_keys.h"
#include "kernels/model/config.h"

// How a file tells of a sliding window: not at all; by its length alone, every layer's; likewise, and where it is
// left out there is none; of the layers that layer_types names, else every layer's; with use_sliding_window, of the
// layers from max_window_layers on or those that layer_types names; of those that layer_types names, else of all
// but one in so many.
enum sliding { SLIDING_NONE, SLIDING_ALL, SLIDING_GIVEN, SLIDING_LISTED, SLIDING_SOME, SLIDING_PATTERN };

struct family {
    const char *model_type, *architecture;
    enum key_set keys;
    bool qkv_bias, qk_norm, whole_qk_norm, unit_offset, tied;
    bool fused; // q, k, v are one matrix of its files, and gate, up one
    enum norms norms;
    const char *activation_key; // NULL: hidden_act
    enum activation activation;
    bool gelu_is_tanh;     // "gelu" means its approximation by tanh
    bool scales_embedding; // by sqrt(width)
    bool scales_queries;   // attention's scale is 1 / sqrt(query_pre_attn_scalar)
    size_t kv_heads;       // 0: as many as heads
    size_t head_dim;       // 0: hidden_size / num_attention_heads
    double norm_epsilon, rope_theta;
    double local_rope_theta;    // of layers with a window, which then have no scaling; 0: the same
    const char *local_rope_key; // NULL: it is always that
    enum sliding sliding;
    size_t full_each;        // of SLIDING_PATTERN, one in so many
    const char *pattern_key; // that says another number; NULL: none does
    bool default_rope;       // transformers takes no scaling but longrope
    size_t max_context;
    bool padded; // transformers has a pad_token_id where the file leaves it out, `pad`
    size_t pad;
    // hidden_size, num_hidden_layers, num_attention_heads, intermediate_size and vocab_size of a text_config that
    // leaves them out; 0: it may not.
    size_t sizes[5];
    // RoPE has a position for each axis of an image (M-RoPE, Qwen2-VL). For text all of them are the token's
    // position, so that it is RoPE.
    bool axes;
};
// Ending with a NULL model_type.
extern const struct family families[];

// Models of images or sound beside text, whose text_config is a language model of a family, which is read alone.
struct composite {
    const char *model_type;
    const char *text_type; // of a text_config that does not say its model_type; of all of them where `fixed`
    bool fixed;
    bool flat;             // older files have the keys of text_config beside it
    bool tied;             // where tie_word_embeddings is left out
    bool tied_by_text;     // tie_word_embeddings of text_config counts, too
    double norm_epsilon;   // where text_config leaves it out; 0: its family's
    const char *submodule; // of `model`, that is the language model; NULL: language_model
};
// Ending with a NULL model_type.
extern const struct composite composites[];

// Why a known decoder is not read, as the end of a sentence that begins with its model_type; NULL for any other
// name. Known are those of transformers 5.24, and others that are published.
const char *family_unread(const char *model_type);

// By enum activation, as transformers spells them; layer_types by whether they have a window. Ending in NULL.
extern const char *const family_activations[], *const family_layer_types[];
// What queries are multiplied by for a query_pre_attn_scalar, and the other way round.
double family_query_scale(const struct config *config, double scalar);
double family_query_scalar(const struct config *config);
