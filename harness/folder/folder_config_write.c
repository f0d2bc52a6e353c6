#include "harness/folder/folder.h"
#include "harness/folder/folder_mixture.h"
#include "kernels/model/block.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

// The kind of the layers with a window; NULL: there are none.
static const struct layer_kind *windowed_kind(const struct config *c)
{
    for (size_t l = 0; l < c->layers; l++)
        if (config_kind(c, l)->window > 0)
            return config_kind(c, l);
    return NULL;
}

// The keys of a sliding window.
static void add_sliding(json_t *json, const struct config *c, const struct family *family)
{
    json_t *types = json_array();
    for (size_t l = 0; l < c->layers; l++)
        json_array_append_new(types, json_string(family_layer_types[config_kind(c, l)->window > 0]));
    json_object_set_new(json, "sliding_window", json_integer((json_int_t)windowed_kind(c)->window));
    if (family->sliding == SLIDING_SOME || family->sliding == SLIDING_ALTERNATE ||
        family->sliding == SLIDING_SWITCHED)
        json_object_set_new(json, "use_sliding_window", json_true());
    if (family->sliding != SLIDING_ALL && family->sliding != SLIDING_SWITCHED)
        json_object_set(json, "layer_types", types);
    json_decref(types);
}

static json_t *factors_json(const double *factors)
{
    json_t *list = json_array();
    for (size_t j = 0; j < LONGROPE_PAIRS && factors[j] > 0; j++)
        json_array_append_new(list, json_real(factors[j]));
    return list;
}

json_t *folder_rope_json(const struct config *c, const struct rope_scaling *r, const char *type,
                         const char *original_context)
{
    if (r->factor == 0)
        return json_null();
    if (r->longrope)
        return json_pack("{s:s, s:o, s:o, s:I, s:f}", type, "longrope", "short_factor",
                         factors_json(c->short_factors), "long_factor", factors_json(c->long_factors),
                         original_context, (json_int_t)r->original_context, "attention_factor",
                         r->attention_factor);
    if (r->dynamic)
        return json_pack("{s:s, s:f, s:I}", type, "dynamic", "factor", r->factor, original_context,
                         (json_int_t)r->original_context);
    if (r->high_freq_factor == 0)
        return json_pack("{s:s, s:f}", type, "linear", "factor", r->factor);
    if (r->attention_factor != 0)
        return json_pack("{s:s, s:f, s:f, s:f, s:I, s:f, s:o*}", type, "yarn", "factor", r->factor, "beta_fast",
                         r->high_freq_factor, "beta_slow", r->low_freq_factor, original_context,
                         (json_int_t)r->original_context, "attention_factor", r->attention_factor, "truncate",
                         r->untruncated ? json_false() : NULL);
    return json_pack("{s:s, s:f, s:f, s:f, s:I}", type, "llama3", "factor", r->factor, "low_freq_factor",
                     r->low_freq_factor, "high_freq_factor", r->high_freq_factor, original_context,
                     (json_int_t)r->original_context);
}

static json_t *scaling_json(const struct config *c, const struct layer_kind *kind)
{
    if (kind->rope_scaling.dynamic) // whose original context is max_position_embeddings
        return json_pack("{s:s, s:f}", "rope_type", "dynamic", "factor", kind->rope_scaling.factor);
    if (kind->rope != ROPE_PROPORTIONAL)
        return folder_rope_json(c, &kind->rope_scaling, "rope_type", "original_max_position_embeddings");
    json_t *json = json_pack("{s:s, s:f}", "rope_type", "proportional", "partial_rotary_factor",
                             (double)kind->rotary / (double)kind->head_dim);
    if (kind->rope_scaling.factor > 0)
        json_object_set_new(json, "factor", json_real(kind->rope_scaling.factor));
    return json;
}

// The keys of Gated DeltaNet.
static void add_delta(json_t *json, const struct config *c)
{
    const struct layer_kind *kind = &c->kinds[CONFIG_DELTA];
    json_t *types = json_array();
    for (size_t l = 0; l < c->layers; l++)
        json_array_append_new(types,
                              json_string(config_mixer(c, l)->at_borders ? "linear_attention" : "full_attention"));
    json_object_set_new(json, "layer_types", types);
    json_object_set_new(json, "linear_num_value_heads", json_integer((json_int_t)kind->heads));
    json_object_set_new(json, "linear_num_key_heads", json_integer((json_int_t)kind->kv_heads));
    json_object_set_new(json, "linear_key_head_dim", json_integer((json_int_t)kind->head_dim));
    json_object_set_new(json, "linear_value_head_dim", json_integer((json_int_t)kind->value_dim));
    json_object_set_new(json, "linear_conv_kernel_dim", json_integer(4));
    if (kind->mixer == MIXER_DELTA_SPLIT)
        json_object_set_new(json, "linear_allow_neg_eigval", json_boolean(kind->beta_scale > 0));
}

// The keys of latent attention.
static void add_latent(json_t *json, const struct config *c, const struct family *family)
{
    const struct layer_kind *kind = &c->kinds[0];
    json_t *types = json_array();
    for (size_t l = 0; l < c->layers; l++)
        json_array_append_new(types, json_string("full_attention"));
    json_object_del(json, "head_dim");
    json_object_set_new(json, "q_lora_rank", kind->q_rank ? json_integer((json_int_t)kind->q_rank) : json_null());
    json_object_set_new(json, "kv_lora_rank", json_integer((json_int_t)kind->kv_rank));
    json_object_set_new(json, "qk_nope_head_dim", json_integer((json_int_t)(kind->head_dim - kind->rotary)));
    json_object_set_new(json, "qk_rope_head_dim", json_integer((json_int_t)kind->rotary));
    json_object_set_new(json, "v_head_dim", json_integer((json_int_t)kind->value_dim));
    if (kind->query_scale > 0)
        json_object_set_new(json_object_get(json, "rope_scaling"), "mscale_all_dim",
                            json_real(family_mscale_all_dim(kind)));
    if (family->interleaves)
        json_object_set_new(json, "rope_interleave", json_boolean(kind->rope == ROPE_INTERLEAVED));
    if (family->kda)
        json_object_set(json, "layer_types", types);
    json_decref(types);
}

static json_t *cap_json(double cap)
{
    return cap > 0 ? json_real(cap) : json_null();
}

static void add_no_rope_layers(json_t *json, const struct config *c)
{
    json_t *list = json_array();
    for (size_t l = 0; l < c->layers; l++)
        json_array_append_new(list, json_integer(config_kind(c, l)->rope != ROPE_NONE));
    json_object_set_new(json, "no_rope_layers", list);
}

// Beside RoPE's scaling, in its object.
static void add_position_scale(json_t *json, const struct layer_kind *kind)
{
    static const char original[] = "original_max_position_embeddings";
    json_t *object = json_object_get(json, "rope_scaling");
    if (json_is_null(object)) {
        object = json_pack("{s:s}", "rope_type", "default");
        json_object_set_new(json, "rope_scaling", object);
    }
    json_object_set_new(object, "llama_4_scaling_beta", json_real(kind->position_scale.beta));
    json_object_set_new(object, original, json_integer((json_int_t)kind->position_scale.length));
}

// Keys of a family whose layers without a window have heads of their own, whose RoPE is in an object by type.
static void add_global_heads(json_t *json, const struct config *c)
{
    const struct layer_kind *full = config_full_kind(c), *windowed = windowed_kind(c);
    json_t *turning = json_object_get(json, "rope_scaling"), *rope = json_object();
    turning = json_is_object(turning) ? json_incref(turning) : json_pack("{s:s}", "rope_type", "default");
    json_object_set_new(turning, "rope_theta", json_real(full->rope_theta));
    json_object_set_new(rope, family_layer_types[0], turning);
    json_object_set_new(rope, family_layer_types[1],
                        json_pack("{s:s, s:f}", "rope_type", "default", "rope_theta", windowed->rope_theta));
    json_object_set_new(json, "rope_parameters", rope);
    json_object_del(json, "rope_scaling");
    json_object_del(json, "rope_theta");
    json_object_set_new(json, "head_dim", json_integer((json_int_t)windowed->head_dim));
    json_object_set_new(json, "num_key_value_heads", json_integer((json_int_t)windowed->kv_heads));
    json_object_set_new(json, "global_head_dim", json_integer((json_int_t)full->head_dim));
    json_object_set_new(json, "num_global_key_value_heads", json_integer((json_int_t)full->kv_heads));
    json_object_set_new(json, "attention_k_eq_v", json_boolean(full->k_is_v));
    json_object_set_new(json, "hidden_size_per_layer_input", json_integer(0));
}

static json_t *encode(const struct config *c, const struct family *family, enum dtype dtype)
{
    const char *dtypes[DTYPE_COUNT] = {[DTYPE_F64] = "float64", [DTYPE_F32] = "float32", [DTYPE_BF16] = "bfloat16"};
    const struct layer_kind *kind = config_full_kind(c), *windowed = windowed_kind(c);
    size_t max_context = c->max_context ? c->max_context : family->max_context;
    if (kind->rope_scaling.dynamic)
        max_context = kind->rope_scaling.original_context;
    json_t *json = json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:b, s:s, s:s}", "architectures",
        family->architecture, "model_type", family->model_type, "hidden_size", (json_int_t)c->width,
        "num_hidden_layers", (json_int_t)c->layers, "num_attention_heads", (json_int_t)kind->heads,
        "num_key_value_heads", (json_int_t)kind->kv_heads, "head_dim", (json_int_t)kind->head_dim,
        "intermediate_size", (json_int_t)c->ffn, "vocab_size", (json_int_t)c->vocab, "max_position_embeddings",
        (json_int_t)max_context, family->epsilon_key ? family->epsilon_key : "rms_norm_eps", c->norm_epsilon,
        "rope_theta", kind->rope_theta, "rope_scaling", scaling_json(c, kind), "tie_word_embeddings", c->tied,
        family->activation_key ? family->activation_key : "hidden_act", family_activations[c->activation],
        "torch_dtype", dtypes[dtype]);
    CHECK(json);
    json_object_set_new(json, "pad_token_id", c->padded ? json_integer((json_int_t)c->pad) : json_null());
    if (windowed)
        add_sliding(json, c, family);
    else if (family->no_rope == NO_ROPE_FULL)
        json_object_set_new(json, "sliding_window", json_null());
    if (family->local_rope_key && windowed)
        json_object_set_new(json, family->local_rope_key, json_real(windowed->rope_theta));
    if (family->scales_queries) // transformers truncates it to a whole number
        json_object_set_new(json, "query_pre_attn_scalar", json_integer(llround(family_query_scalar(kind))));
    if (family->multiplies) {
        json_object_set_new(json, "attention_multiplier", json_real(1 / sqrt(family_query_scalar(kind))));
        json_object_set_new(json, "embedding_multiplier",
                            json_real(c->embedding_scale > 0 ? c->embedding_scale : 1));
    }
    if (family->keys & (KEYS_GRANITE | KEYS_GRANITEMOE)) {
        json_object_set_new(json, "residual_multiplier", json_real(c->residual_scale > 0 ? c->residual_scale : 1));
        json_object_set_new(json, "logits_scaling", json_real(c->logits_scale > 0 ? 1 / c->logits_scale : 1));
    }
    for (const struct bias_key *key = bias_keys; key->key; key++)
        if (key->sets & family->keys)
            json_object_set_new(json, key->key, json_boolean(family_bias(key, c)));
    if (family->no_rope == NO_ROPE_LISTED)
        add_no_rope_layers(json, c);
    if (family->no_rope == NO_ROPE_NULL_THETA && kind->rope == ROPE_NONE)
        json_object_set_new(json, "rope_theta", json_null());
    if (family->partial > 0) {
        double share = (double)rope_rotary(kind) / (double)kind->head_dim;
        json_object_set_new(json, "partial_rotary_factor", json_real(share));
    }
    if (family->qk_norm_keyed)
        json_object_set_new(json, "use_qk_norm", json_boolean(c->qk_norm));
    if (family->delta)
        add_delta(json, c);
    if (family->latent.kv_rank > 0)
        add_latent(json, c, family);
    if (family->depth_scaled) {
        double residual = c->residual_scale > 0 ? c->residual_scale : 1;
        double logits = c->logits_scale > 0 ? c->logits_scale : 1;
        json_object_set_new(json, "scale_emb", json_real(c->embedding_scale > 0 ? c->embedding_scale : 1));
        json_object_set_new(json, "scale_depth", json_real(residual * sqrt((double)c->layers)));
        json_object_set_new(json, "dim_model_base", json_integer(llround(logits * (double)c->width)));
    }
    if (family->scales_positions)
        add_position_scale(json, kind);
    if (family->cap > 0)
        json_object_set_new(json, "attn_logit_softcapping", cap_json(kind->cap));
    if (family->logit_cap > 0 || family->caps_logits)
        json_object_set_new(json, "final_logit_softcapping", cap_json(c->logit_cap));
    if (family->logits_scale > 0)
        json_object_set_new(json, "logit_scale", json_real(c->logits_scale > 0 ? c->logits_scale : 1));
    if (family->global_heads)
        add_global_heads(json, c);
    folder_mixture_encode(json, family, c);
    return json;
}

static bool has_windows_of(const struct family *family, const struct config *c)
{
    bool windowed = windowed_kind(c), some_full = config_full_kind(c)->window == 0;
    switch (family->sliding) {
    case SLIDING_NONE:
        return !windowed;
    case SLIDING_ALL:
    case SLIDING_GIVEN:
    case SLIDING_SWITCHED:
        return !windowed || !some_full;
    case SLIDING_LISTED:
        return windowed && some_full;
    case SLIDING_SOME:
    case SLIDING_ALTERNATE:
    case SLIDING_ABOVE:
        return true;
    case SLIDING_PATTERN:
        return windowed || family->no_rope == NO_ROPE_FULL;
    }
    return false;
}

// Tells whether layers with a window may have such a RoPE beside that of the others.
static bool has_rope_of(const struct family *family, const struct config *c)
{
    const struct layer_kind *windowed = windowed_kind(c);
    struct layer_kind full = *config_full_kind(c);
    for (size_t l = 0; l < c->layers; l++) {
        const struct layer_kind *kind = config_kind(c, l);
        bool none = kind->rope == ROPE_NONE;
        bool free =
            family->no_rope == NO_ROPE_LISTED || family->no_rope == NO_ROPE_NULL_THETA || family->rope == ROPE_NONE;
        bool halves = family->interleaves && kind->rope == ROPE_HALVES;
        bool unwindowed = family->no_rope == NO_ROPE_FULL || family->no_rope == NO_ROPE_UNWINDOWED;
        bool proportional = kind->rope == ROPE_PROPORTIONAL && family->rope == ROPE_HALVES && family->partial == 0;
        if (none ? !free && (!unwindowed || kind->window > 0)
                 : kind->rope != family->rope && !proportional && !halves)
            return false;
        if (!none && windowed && unwindowed && kind->window == 0)
            return false;
    }
    full.rope = windowed && full.rope == ROPE_NONE ? windowed->rope : full.rope;
    if (rope_rotary(&full) > 0 && rope_rotary(&full) < full.head_dim && family->partial == 0 &&
        family->latent.kv_rank == 0)
        return false;
    if (family->local_rope_theta == 0 || !windowed)
        return !windowed || rope_is_same(windowed, &full);
    return windowed->rope_scaling.factor == 0 &&
           (family->local_rope_key || family->global_heads || windowed->rope_theta == family->local_rope_theta);
}

// Tells whether the family's keys can give the config's biases.
static bool has_biases_of(const struct family *family, const struct config *c)
{
    struct config found = {.qkv_bias = family->qkv_bias, .o_bias = family->o_bias};
    for (const struct bias_key *key = bias_keys; key->key; key++)
        if (key->sets & family->keys)
            family_set_bias(key, &found, family_bias(key, c));
    return found.qkv_bias == c->qkv_bias && found.o_bias == c->o_bias && found.mlp_bias == c->mlp_bias;
}

// Tells whether the family has latent attention, and such a scale of it, where the config has.
static bool has_latent_of(const struct family *family, const struct config *c)
{
    const struct layer_kind *kind = &c->kinds[0];
    bool latent = family->latent.kv_rank > 0, same = true;
    for (size_t l = 0; l < c->layers; l++) {
        const struct layer_kind *own = config_kind(c, l);
        same &= (own->mixer == MIXER_LATENT) == latent;
    }
    bool scaled = kind->query_scale == 0 || (kind->rope_scaling.factor > 1 && kind->query_scale > 1);
    return same && (!latent || scaled);
}

// Tells whether the family has the config's factors of embeddings, of what blocks add, and of logits.
static bool has_scales_of(const struct family *family, const struct config *c)
{
    double embedding_scale = family->scales_embedding ? sqrt((double)c->width) : 0;
    double base = c->logits_scale * (double)c->width;
    bool none = c->residual_scale == 0 && (c->logits_scale == 0 || family->logits_scale > 0);
    if (family->depth_scaled)
        return fabs(base - round(base)) < 1e-9 * base || base == 0;
    return (family->keys & (KEYS_GRANITE | KEYS_GRANITEMOE) || none) &&
           (family->multiplies || embedding_scale == c->embedding_scale);
}

// Tells whether the family has layers of Gated DeltaNet of that kind, and none has others.
static bool has_delta_of(const struct family *family, const struct config *c)
{
    const struct layer_kind *kind = &c->kinds[CONFIG_DELTA];
    bool has = config_has_kind(c, CONFIG_DELTA), two = config_has_kind(c, 0);
    for (size_t k = 1; k < CONFIG_DELTA; k++)
        two &= !config_has_kind(c, k);
    if (!family->delta || !has)
        return !has && !family->split;
    if (kind->mixer != (family->split ? MIXER_DELTA_SPLIT : MIXER_DELTA) || kind->norms_before != family->split)
        return false;
    return family->split ? two && (kind->beta_scale == 0 || kind->beta_scale == 2) &&
                               kind->gate_epsilon == FAMILY_SPLIT_EPSILON
                         : kind->beta_scale == 0 && kind->gate_epsilon == c->norm_epsilon;
}

// Tells whether the family has the config's caps, sinks and gates.
static bool has_softmax_of(const struct family *family, const struct config *c)
{
    bool same = c->logit_cap == 0 || family->logit_cap > 0 || family->caps_logits;
    for (size_t l = 0; l < c->layers; l++) {
        const struct layer_kind *kind = config_kind(c, l);
        bool gate = config_mixer(c, l)->at_borders || kind->gated == family->gated;
        same &= kind->sinks == family->sinks && gate && (kind->cap == 0 || family->cap > 0);
    }
    return same;
}

// Tells whether the family scales queries by position as the config does; none writes chunked attention.
static bool has_positions_of(const struct family *family, const struct config *c)
{
    bool same = true;
    for (size_t l = 0; l < c->layers; l++) {
        const struct layer_kind *kind = config_kind(c, l);
        const struct position_scale *scale = &kind->position_scale;
        size_t original = kind->rope_scaling.dynamic ? 0 : kind->rope_scaling.original_context;
        same &= !kind->chunked && (scale->length > 0) == family->scales_positions && scale->offset == 0 &&
                (scale->length == 0 || original == 0 || original == scale->length);
    }
    return same;
}

// Tells whether the family has the config's heads, which of others are those of all layers, and scores' scale.
static bool has_heads_of(const struct family *family, const struct config *c)
{
    const struct layer_kind *full = config_full_kind(c), *windowed = windowed_kind(c);
    if (full->v_norm != family->global_heads || (full->k_is_v && !family->global_heads))
        return false;
    bool same = !windowed || (windowed->head_dim == full->head_dim && windowed->kv_heads == full->kv_heads);
    if (!family->global_heads)
        return same && (family->scales_queries || family->multiplies || family->latent.kv_rank > 0 ||
                        c->kinds[0].query_scale == 0);
    double scalar = family_query_scalar(full);
    return windowed && config_kind(c, c->layers - 1)->window == 0 && fabs(scalar - 1) < 1e-9 &&
           (full->k_is_v || windowed->kv_heads == full->kv_heads);
}

// Tells whether the family supports the config's biases, norms, scales, caps and windows.
static bool is_of(const struct family *family, const struct config *c)
{
    bool joins = family->fused || family->gate_up_fused || family->delta_fused; // which is not written
    return has_windows_of(family, c) && has_biases_of(family, c) && has_scales_of(family, c) && !joins &&
           (family->qk_norm_keyed || family->qk_norm == c->qk_norm) && family->whole_qk_norm == c->whole_qk_norm &&
           family->unit_offset == c->unit_offset && family->norms == c->norms && family->centred == c->centred &&
           family->parallel == c->parallel && family->layer_scalars == c->layer_scalars &&
           has_heads_of(family, c) && has_latent_of(family, c) && has_positions_of(family, c) &&
           has_softmax_of(family, c) && has_delta_of(family, c) && has_rope_of(family, c) &&
           folder_mixture_is_of(family, c);
}

const struct family *folder_family_of(const struct config *config)
{
    const struct family *family = families;
    while (family->model_type && !is_of(family, config))
        family++;
    return family->model_type ? family : NULL;
}

bool folder_write_config(const char *folder, const struct config *config, enum dtype dtype, struct status *status)
{
    const struct family *family = folder_family_of(config);
    if (!family) {
        return status_set(status, STATUS_UNSUPPORTED,
                          "no model type of transformers has both qkv_bias (Qwen2) and qk_norm (Qwen3), or such "
                          "norms, scales, caps, sinks and gates together");
    }
    return folder_write_json(folder, "config.json", encode(config, family, dtype), status);
}
