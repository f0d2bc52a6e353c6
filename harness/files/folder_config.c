#include "harness/files/folder_config.h"
#include <math.h>
#include <string.h>

#define SIZE_MOST ((size_t)1 << 24)

#define SLIDING_WINDOW    4096 // where the key is left out
#define FIRST_WITH_WINDOW 28

// The key's value; null counts as left out, as it does in transformers.
static struct json_field key_of(struct json_field object, const char *key)
{
    struct json_field field = json_field_get(object, key);
    field.value = json_field_given(field) ? field.value : NULL;
    return field;
}

// Keys that would change what is computed, in a way the decoder does not know.
static bool refuse_true(struct json_field field, const char *why, struct status *status)
{
    bool on = false;
    if (!json_field_bool(field, &on, status)) {
        return false;
    }
    return !on || json_field_fail(field, status, "%s", why);
}

// The language model that config.json describes: all of it, or its text_config.
struct text {
    struct json_field root;
    const struct composite *composite; // NULL: it is all of the model
    const struct family *family;
};

static const struct family *find_family(const char *model_type)
{
    const struct family *family = families;
    while (family->model_type && strcmp(family->model_type, model_type) != 0) {
        family++;
    }
    return family->model_type ? family : NULL;
}

// NULL and a status if it is none that is read.
static const struct family *read_family(struct json_field root, struct status *status)
{
    struct names names = {0};
    for (const struct family *f = families; f->model_type; f++) {
        names_add(&names, f->model_type);
    }
    struct json_field field = key_of(root, "model_type");
    size_t index = 0;
    if (!field.value) {
        json_field_expected(field, status, "the type of a model, such as llama");
        return NULL;
    }
    const char *name = json_string_value(field.value);
    const char *why = name ? family_unread(name) : NULL;
    if (why) {
        json_field_fail(field, status, "%s %s", name, why);
        return NULL;
    }
    return json_field_choice(field, &names, "model type", &index, status) ? &families[index] : NULL;
}

static const struct composite *find_composite(struct json_field root)
{
    const char *model_type = json_string_value(key_of(root, "model_type").value);
    const struct composite *composite = composites;
    while (model_type && composite->model_type && strcmp(composite->model_type, model_type) != 0) {
        composite++;
    }
    return model_type && composite->model_type ? composite : NULL;
}

static bool find_text(struct json_field root, struct text *text, struct status *status)
{
    const struct composite *composite = find_composite(root);
    struct json_field own = key_of(root, "text_config");
    bool flat = composite && composite->flat && !own.value;
    *text = (struct text){.root = composite && !flat ? own : root, .composite = composite};
    if (!json_is_object(text->root.value)) {
        return json_field_expected(text->root, status, "an object");
    }
    bool named = !composite || (!composite->fixed && key_of(own, "model_type").value);
    text->family = named ? read_family(text->root, status) : find_family(composite->text_type);
    return text->family;
}

// No file of a model of text alone leaves them out, though transformers has defaults for them.
static bool read_required(const struct text *text, struct config *c, struct status *status)
{
    const struct {
        const char *key;
        size_t *value;
    } sizes[] = {{"hidden_size", &c->width},
                 {"num_hidden_layers", &c->layers},
                 {"num_attention_heads", &c->heads},
                 {"intermediate_size", &c->ffn},
                 {"vocab_size", &c->vocab}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct json_field field = key_of(text->root, sizes[i].key);
        *sizes[i].value = text->composite ? text->family->sizes[i] : 0;
        if (!field.value && !*sizes[i].value) {
            return json_field_expected(field, status, "a whole number above 0");
        }
        if (!json_field_count(field, 1, SIZE_MOST, "", sizes[i].value, status)) {
            return false;
        }
    }
    return true;
}

static bool read_sizes(const struct text *text, struct config *c, struct status *status)
{
    struct json_field root = text->root;
    const struct family *family = text->family;
    if (!read_required(text, c, status)) {
        return false;
    }
    // Left out means the class's number; null means one per query head.
    bool null_heads = json_is_null(json_field_get(root, "num_key_value_heads").value);
    c->kv_heads = family->kv_heads && !null_heads ? family->kv_heads : c->heads;
    c->max_context = family->max_context;
    struct json_field head_dim = key_of(root, "head_dim");
    bool null_dim = json_is_null(json_field_get(root, "head_dim").value);
    c->head_dim = family->head_dim && !null_dim ? family->head_dim : c->width / c->heads;
    if (!head_dim.value && c->head_dim * c->heads != c->width && (!family->head_dim || null_dim)) {
        return json_field_fail(key_of(root, "num_attention_heads"), status,
                               "%zu heads do not divide hidden_size %zu, and there is no head_dim", c->heads,
                               c->width);
    }
    c->norm_epsilon =
        text->composite && text->composite->norm_epsilon > 0 ? text->composite->norm_epsilon : family->norm_epsilon;
    c->tied = family->tied;
    return json_field_count(key_of(root, "num_key_value_heads"), 1, SIZE_MOST, "", &c->kv_heads, status) &&
           json_field_count(head_dim, 1, SIZE_MOST, "", &c->head_dim, status) &&
           json_field_count(key_of(root, "max_position_embeddings"), 1, JSON_INTEGER_MAX, "", &c->max_context,
                            status) &&
           json_field_number(key_of(root, "rms_norm_eps"), 1e-300, 1, &c->norm_epsilon, status) &&
           json_field_bool(key_of(root, "tie_word_embeddings"), &c->tied, status);
}

// The head belongs to the whole model, so its own key says whether it is the embedding.
static bool read_tie(struct json_field root, const struct composite *composite, struct config *c,
                     struct status *status)
{
    bool tied = composite->tied;
    if (!json_field_bool(key_of(root, "tie_word_embeddings"), &tied, status)) {
        return false;
    }
    c->tied = tied || (composite->tied_by_text && c->tied);
    return true;
}

static bool read_llama3(struct json_field scaling, struct config *c, struct status *status)
{
    struct {
        const char *key;
        double minimum, *value;
    } numbers[] = {{"factor", 1, &c->rope_scaling.factor},
                   {"low_freq_factor", 1e-300, &c->rope_scaling.low_freq_factor},
                   {"high_freq_factor", 1e-300, &c->rope_scaling.high_freq_factor}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct json_field field = key_of(scaling, numbers[i].key);
        if (!field.value) {
            return json_field_expected(field, status, "a number");
        }
        if (!json_field_number(field, numbers[i].minimum, 1e300, numbers[i].value, status)) {
            return false;
        }
    }
    c->rope_scaling.original_context = c->max_context;
    return json_field_count(key_of(scaling, "original_max_position_embeddings"), 1, JSON_INTEGER_MAX, "",
                            &c->rope_scaling.original_context, status);
}

// As transformers has it: attention_factor, or by mscale and mscale_all_dim, or YaRN's own.
static bool read_yarn(struct json_field scaling, struct config *c, struct status *status)
{
    struct rope_scaling *r = &c->rope_scaling;
    struct json_field factor = key_of(scaling, "factor"), truncate = key_of(scaling, "truncate");
    double scales[2] = {0, 0};
    bool truncates = true;
    if (!factor.value) {
        return json_field_expected(factor, status, "a number");
    }
    *r = (struct rope_scaling){1, 1, 32, c->max_context, 0};
    if (!json_field_number(factor, 1, 1e300, &r->factor, status) ||
        !json_field_number(key_of(scaling, "beta_fast"), 1e-300, 1e300, &r->high_freq_factor, status) ||
        !json_field_number(key_of(scaling, "beta_slow"), 1e-300, 1e300, &r->low_freq_factor, status) ||
        !json_field_number(key_of(scaling, "mscale"), 0, 1e300, &scales[0], status) ||
        !json_field_number(key_of(scaling, "mscale_all_dim"), 0, 1e300, &scales[1], status) ||
        !json_field_bool(truncate, &truncates, status) ||
        !json_field_count(key_of(scaling, "original_max_position_embeddings"), 1, JSON_INTEGER_MAX, "",
                          &r->original_context, status)) {
        return false;
    }
    if (!truncates) {
        return json_field_expected(truncate, status, "true: the blended frequencies begin and end at whole ones");
    }
    r->attention_factor = config_yarn_gain(r->factor);
    if (scales[0] > 0 && scales[1] > 0) {
        r->attention_factor =
            (1 + scales[0] * (r->attention_factor - 1)) / (1 + scales[1] * (r->attention_factor - 1));
    }
    return json_field_number(key_of(scaling, "attention_factor"), 1e-300, 1e300, &r->attention_factor, status);
}

// One object of RoPE: its base, and how it is scaled. types: NULL: in every way that is known.
static bool read_rope_object(struct json_field object, const struct family *family, double *theta, struct config *c,
                             const char *types, struct status *status)
{
    if (!json_is_object(object.value)) {
        return json_field_expected(object, status, "an object or null");
    }
    struct json_field type = key_of(object, "rope_type"), rotary = key_of(object, "partial_rotary_factor");
    type = type.value ? type : key_of(object, "type");
    const char *name = "default";
    double rotated = 1;
    if (!json_field_text(type, "default, linear, llama3 or yarn", &name, status) ||
        !json_field_number(key_of(object, "rope_theta"), 1e-300, 1e300, theta, status) ||
        !json_field_number(rotary, 0, 1e300, &rotated, status)) {
        return false;
    }
    if (rotated != 1) {
        return json_field_expected(rotary, status, "1: whole heads are rotated");
    }
    if (strcmp(name, "default") == 0 || (family->axes && strcmp(name, "mrope") == 0)) {
        return true;
    }
    if (types) {
        return json_field_expected(type, status, "%s", types);
    }
    if (strcmp(name, "llama3") == 0) {
        return read_llama3(object, c, status);
    }
    if (strcmp(name, "yarn") == 0) {
        return read_yarn(object, c, status);
    }
    if (strcmp(name, "linear") != 0) {
        return json_field_expected(type, status, "default, linear, llama3 or yarn");
    }
    struct json_field factor = key_of(object, "factor");
    return factor.value ? json_field_number(factor, 1, 1e300, &c->rope_scaling.factor, status)
                        : json_field_expected(factor, status, "a number");
}

// RoPE is told in two ways: rope_theta beside rope_scaling, or, from transformers 5 on, all within rope_parameters;
// where layers with a window have one of their own, rope_local_base_freq, or an object for each type of layer.
static bool read_rope(struct json_field root, const struct family *family, struct config *c, struct status *status)
{
    struct json_field scaling = key_of(root, "rope_scaling");
    scaling = scaling.value ? scaling : key_of(root, "rope_parameters");
    c->rope_theta = family->rope_theta;
    c->local_rope_theta = family->local_rope_theta;
    if (!json_field_number(key_of(root, "rope_theta"), 1e-300, 1e300, &c->rope_theta, status) ||
        (family->local_rope_key &&
         !json_field_number(key_of(root, family->local_rope_key), 1e-300, 1e300, &c->local_rope_theta, status))) {
        return false;
    }
    struct json_field full = key_of(scaling, family_layer_types[0]), local = key_of(scaling, family_layer_types[1]);
    if (family->local_rope_theta > 0 && (full.value || local.value)) {
        return (!full.value || read_rope_object(full, family, &c->rope_theta, c, NULL, status)) &&
               (!local.value || read_rope_object(local, family, &c->local_rope_theta, c,
                                                 "default in layers with a window", status));
    }
    return !scaling.value || read_rope_object(scaling, family, &c->rope_theta, c, NULL, status);
}

static bool set_full(struct config *c, struct json_field field, size_t layer, struct status *status)
{
    return config_set_full(c, layer) ||
           json_field_fail(field, status, "layers without a sliding window must be among the first %d",
                           CONFIG_FULL_LAYERS);
}

// The layers without a window, as `types` lists them. without: why no layer can have one; NULL: they can.
static bool read_layer_types(struct json_field types, const char *without, struct config *c, struct status *status)
{
    struct names names = {0};
    names_add_all(&names, family_layer_types);
    if (!json_is_array(types.value) || json_array_size(types.value) != c->layers) {
        return json_field_expected(types, status, "a list of %zu types, one per layer", c->layers);
    }
    for (size_t l = 0; l < c->layers; l++) {
        struct json_field type = json_field_at(types, l);
        size_t sliding = 0;
        if (!json_field_choice(type, &names, "type of layer", &sliding, status)) {
            return false;
        }
        if (sliding && without) {
            return json_field_expected(type, status, "\"full_attention\": %s", without);
        }
        if (!sliding && !without && !set_full(c, type, l, status)) {
            return false;
        }
    }
    return true;
}

// Of every layer but one in so many, or as listed.
static bool read_pattern(struct json_field root, const struct family *family, struct config *c,
                         struct status *status)
{
    struct json_field window = json_field_get(root, "sliding_window"), types = key_of(root, "layer_types");
    struct json_field each_field = key_of(root, "sliding_window_pattern");
    size_t each = family->full_each;
    c->sliding_window = SLIDING_WINDOW;
    if (!json_field_count(window, 1, JSON_INTEGER_MAX, " of tokens", &c->sliding_window, status) ||
        !json_field_count(each_field, 1, SIZE_MOST, "", &each, status)) {
        return false;
    }
    if (types.value) {
        return read_layer_types(types, NULL, c, status);
    }
    for (size_t l = each - 1; l < c->layers; l += each) {
        if (!set_full(c, each_field, l, status)) {
            return false;
        }
    }
    return true;
}

static bool read_sliding(struct json_field root, const struct family *family, struct config *c,
                         struct status *status)
{
    struct json_field window = json_field_get(root, "sliding_window"), types = key_of(root, "layer_types");
    struct json_field first_field = key_of(root, "max_window_layers");
    bool windows = family->sliding == SLIDING_ALL || (family->sliding == SLIDING_GIVEN && window.value);
    size_t length = SLIDING_WINDOW, first = FIRST_WITH_WINDOW;
    if (family->sliding == SLIDING_NONE &&
        !refuse_true(key_of(root, "use_sliding_window"), "this model type has no sliding window in transformers",
                     status)) {
        return false;
    }
    if (family->sliding == SLIDING_SOME && !json_field_bool(key_of(root, "use_sliding_window"), &windows, status)) {
        return false;
    }
    if (family->sliding == SLIDING_PATTERN) {
        return read_pattern(root, family, c, status);
    }
    const char *without = !windows                     ? "use_sliding_window is not true"
                          : json_is_null(window.value) ? "sliding_window is null"
                                                       : NULL;
    windows = !without;
    if (windows && (!json_field_count(window, 1, JSON_INTEGER_MAX, " of tokens", &length, status) ||
                    !json_field_count(first_field, 0, SIZE_MOST, "", &first, status))) {
        return false;
    }
    c->sliding_window = windows ? length : 0;
    if (family->sliding == SLIDING_ALL || family->sliding == SLIDING_GIVEN) {
        return true; // in Mistral and Phi-3 the other keys mean nothing
    }
    if (types.value) {
        return read_layer_types(types, without, c, status);
    }
    for (size_t l = 0; windows && l < c->layers && l < first; l++) {
        if (!set_full(c, first_field, l, status)) {
            return false;
        }
    }
    return true;
}

// The activation, and the scales of Gemma.
static bool read_block(struct json_field root, const struct family *family, struct config *c, struct status *status)
{
    struct names names = {0};
    names_add_all(&names, family_activations);
    struct json_field field = key_of(root, family->activation_key ? family->activation_key : "hidden_act");
    size_t activation = family->activation;
    double scalar = (double)c->head_dim;
    if (!json_field_choice(field, &names, "activation", &activation, status)) {
        return false;
    }
    c->activation = (enum activation)activation;
    c->embedding_scale = family->scales_embedding ? sqrt((double)c->width) : 0;
    if (family->scales_queries) {
        scalar = 256;
        if (!json_field_number(key_of(root, "query_pre_attn_scalar"), 1e-6, 1e6, &scalar, status)) {
            return false;
        }
        c->query_scale = family_query_scale(c, scalar);
    }
    return true;
}

static bool refuse_unknown(struct json_field root, const struct family *family, struct status *status)
{
    static const char *const caps[] = {"attn_logit_softcapping", "final_logit_softcapping"};
    struct json_field rotary = key_of(root, "partial_rotary_factor");
    double rotated = 1;
    if (!json_field_number(rotary, 0, 1e300, &rotated, status)) {
        return false;
    }
    if (rotated != 1) {
        return json_field_expected(rotary, status, "1: whole heads are rotated");
    }
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        struct json_field cap = key_of(root, caps[i]);
        if (cap.value) {
            return json_field_expected(cap, status, "null: what a tanh caps is not computed");
        }
    }
    if (!refuse_true(key_of(root, "use_bidirectional_attention"), "queries see no later keys here", status)) {
        return false;
    }
    // In Qwen2 the biases of q, k and v are part of the model, and this key means nothing.
    return (family->qkv_bias || refuse_true(key_of(root, "attention_bias"),
                                            "a bias on o_proj, which this implies, is not supported", status)) &&
           refuse_true(key_of(root, "mlp_bias"), "biases in the MLP are not supported", status);
}

// transformers' key, and MLX's.
static bool refuse_quantized(struct json_field root, struct status *status)
{
    static const char *const keys[] = {"quantization_config", "quantization"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct json_field quantized = key_of(root, keys[i]);
        const char *method = json_string_value(json_object_get(quantized.value, "quant_method"));
        if (quantized.value) {
            return json_field_fail(
                quantized, status,
                "quantized weights%s%.40s are not read; give the folder of the weights in bf16 or f32 "
                "that they were made from",
                method ? ", by " : "", method ? method : "");
        }
    }
    return true;
}

bool folder_config_decode(struct json_field root, struct config *config, const struct composite **composite,
                          struct status *status)
{
    if (!json_is_object(root.value)) {
        return json_field_expected(root, status, "an object");
    }
    struct text text;
    if (!find_text(root, &text, status)) {
        return false;
    }
    const struct family *family = text.family;
    *composite = text.composite;
    config->qkv_bias = family->qkv_bias;
    config->qk_norm = family->qk_norm;
    config->whole_qk_norm = family->whole_qk_norm;
    config->unit_offset = family->unit_offset;
    config->norms = family->norms;
    return read_sizes(&text, config, status) &&
           (!text.composite || read_tie(root, text.composite, config, status)) &&
           read_rope(text.root, family, config, status) && read_sliding(text.root, family, config, status) &&
           read_block(text.root, family, config, status) && refuse_unknown(text.root, family, status) &&
           refuse_quantized(root, status) && refuse_quantized(text.root, status);
}
