// Folder family: what a model_type of transformers implies, and what its configuration class assumes for keys that
// are left out.
#pragma once
#include "kernels/transformer/config.h"

// How a file tells of a sliding window: not at all; by its length alone, every layer's; likewise, and where it is
// left out there is none; with use_sliding_window, of the layers from max_window_layers on or those that
// layer_types names; of those that layer_types names, else of all but one in so many.
enum sliding { SLIDING_NONE, SLIDING_ALL, SLIDING_GIVEN, SLIDING_SOME, SLIDING_PATTERN };

struct family {
    const char *model_type, *architecture;
    bool qkv_bias, qk_norm, whole_qk_norm, unit_offset, tied;
    enum norms norms;
    const char *activation_key; // NULL: hidden_act
    enum activation activation;
    bool scales_embedding; // by sqrt(width)
    bool scales_queries;   // attention's scale is 1 / sqrt(query_pre_attn_scalar)
    size_t kv_heads;       // 0: as many as heads
    size_t head_dim;       // 0: hidden_size / num_attention_heads
    double norm_epsilon, rope_theta;
    double local_rope_theta;    // of layers with a window, which then have no scaling; 0: the same
    const char *local_rope_key; // NULL: it is always that
    enum sliding sliding;
    size_t full_each; // of SLIDING_PATTERN, one in so many
    size_t max_context;
};
// Ending with a NULL model_type.
extern const struct family families[];

// Model types that are refused by name, ending with a NULL model_type, and what is missing.
struct unread_family {
    const char *model_type, *why;
};
extern const struct unread_family unread_families[];

// By enum activation, as transformers spells them; layer_types by whether they have a window. Ending in NULL.
extern const char *const family_activations[], *const family_layer_types[];
// What queries are multiplied by for a query_pre_attn_scalar, and the other way round.
double family_query_scale(const struct config *config, double scalar);
double family_query_scalar(const struct config *config);
