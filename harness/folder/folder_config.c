#include "harness/folder/folder_config.h"
#include "harness/folder/folder_family.h"
#include "harness/folder/folder_mixture.h"
#include "harness/json/json_field.h"
#include <math.h>
#include <string.h>
#include <strings.h>

#define SIZE_LIMIT ((size_t)1 << 24)

// Keys are read into kinds[0]; windows then make two kinds of it.

// --- RoPE

// Location of RoPE's keys.
struct rope {
    struct json_field object; // with the type and its numbers
    struct json_field root;   // whose original_max_position_embeddings is the object's; or none
    const struct family *family;
    bool local; // of layers with a window
};

static struct json_field original_of(struct rope rope)
{
    static const char key[] = "original_max_position_embeddings";
    struct json_field field = json_field_get(rope.root, key);
    // A key of the root alone has a default.
    return field.value || rope.family->original_context > 0 ? field : config_key_of(rope.object, key);
}

static bool read_original(struct rope rope, struct config *c, struct status *status)
{
    struct json_field field = original_of(rope);
    size_t standard = rope.family->original_context;
    c->kinds[0].rope_scaling.original_context = standard > 0 ? standard : c->max_context;
    return json_field_count(field, 1, JSON_INTEGER_MAX, "", &c->kinds[0].rope_scaling.original_context, status);
}

static bool required_number(struct json_field field, double minimum, double *value, struct status *status)
{
    return field.value ? json_field_number(field, minimum, 1e300, value, status)
                       : json_field_expected(field, status, "a number");
}

static bool read_llama3(struct rope rope, struct config *c, struct status *status)
{
    struct rope_scaling *r = &c->kinds[0].rope_scaling;
    return required_number(config_key_of(rope.object, "factor"), 1, &r->factor, status) &&
           required_number(config_key_of(rope.object, "low_freq_factor"), 1e-300, &r->low_freq_factor, status) &&
           required_number(config_key_of(rope.object, "high_freq_factor"), 1e-300, &r->high_freq_factor, status) &&
           read_original(rope, c, status);
}

// As transformers has it: attention_factor, or by mscale and mscale_all_dim, or YaRN's own.
static bool read_yarn(struct rope rope, struct config *c, struct status *status)
{
    struct rope_scaling *r = &c->kinds[0].rope_scaling;
    // null means false there.
    struct json_field scaling = rope.object, truncate = json_field_get(scaling, "truncate");
    double scales[2] = {0, 0};
    *r = (struct rope_scaling){.factor = 1, .low_freq_factor = 1, .high_freq_factor = 32};
    if (!required_number(config_key_of(scaling, "factor"), 1, &r->factor, status) ||
        !json_field_number(config_key_of(scaling, "beta_fast"), 1e-300, 1e300, &r->high_freq_factor, status) ||
        !json_field_number(config_key_of(scaling, "beta_slow"), 1e-300, 1e300, &r->low_freq_factor, status) ||
        !json_field_number(config_key_of(scaling, "mscale"), 0, 1e300, &scales[0], status) ||
        !json_field_number(config_key_of(scaling, "mscale_all_dim"), 0, 1e300, &scales[1], status) ||
        !read_original(rope, c, status))
        return false;
    r->untruncated = truncate.value && !json_is_true(truncate.value);
    if (r->untruncated && rope.family->local_rope_theta > 0)
        return json_field_expected(truncate, status, "true: transformers reads it in no RoPE by type of layer");
    if (r->untruncated && !json_is_false(truncate.value) && !json_is_null(truncate.value))
        return json_field_expected(truncate, status, "true or false");
    r->attention_factor = rope_yarn_gain(r->factor);
    if (scales[0] > 0 && scales[1] > 0) {
        r->attention_factor =
            (1 + scales[0] * (r->attention_factor - 1)) / (1 + scales[1] * (r->attention_factor - 1));
    }
    return json_field_number(config_key_of(scaling, "attention_factor"), 1e-300, 1e300, &r->attention_factor,
                             status);
}

// Its original context is max_position_embeddings.
static bool read_dynamic(struct rope rope, struct config *c, struct status *status)
{
    struct rope_scaling *r = &c->kinds[0].rope_scaling;
    *r = (struct rope_scaling){.original_context = c->max_context, .dynamic = true};
    return required_number(config_key_of(rope.object, "factor"), 1, &r->factor, status);
}

static bool read_factors(struct json_field field, size_t pairs, double *factors, struct status *status)
{
    if (!json_is_array(field.value) || json_array_size(field.value) != pairs || pairs > LONGROPE_PAIRS)
        return json_field_expected(field, status, "a list of %zu numbers, one per frequency, at most %d", pairs,
                                   LONGROPE_PAIRS);
    bool read = true;
    for (size_t j = 0; j < pairs && read; j++)
        read = json_field_number(json_field_at(field, j), 1e-300, 1e300, &factors[j], status);
    return read;
}

static bool read_longrope(struct rope rope, struct config *c, struct status *status)
{
    struct layer_kind *kind = &c->kinds[0];
    struct rope_scaling *r = &kind->rope_scaling;
    size_t pairs = (kind->rotary > 0 ? kind->rotary : kind->head_dim) / 2;
    *r = (struct rope_scaling){.factor = 1, .longrope = true};
    if (!read_factors(config_key_of(rope.object, "short_factor"), pairs, c->short_factors, status) ||
        !read_factors(config_key_of(rope.object, "long_factor"), pairs, c->long_factors, status) ||
        !read_original(rope, c, status))
        return false;
    double factor = (double)c->max_context / (double)r->original_context;
    if (!json_field_number(config_key_of(rope.object, "factor"), 1e-300, 1e300, &factor, status))
        return false;
    r->attention_factor = rope_longrope_gain(factor, r->original_context);
    if (!json_field_number(config_key_of(rope.object, "attention_factor"), 1e-300, 1e300, &r->attention_factor,
                           status))
        return false;
    return isfinite(r->attention_factor) ||
           json_field_expected(original_of(rope), status,
                               "a number above 1, by whose logarithm attention_factor is divided");
}

// The share of a head that turns.
static bool read_partial(struct json_field object, const struct family *family, struct layer_kind *kind,
                         struct status *status)
{
    struct json_field partial = config_key_of(object, "partial_rotary_factor");
    double share = 1;
    if (!json_field_number(partial, 0, 1e300, &share, status))
        return false;
    if (family->partial == 0 && family->latent.kv_rank > 0)
        return share == 1 || json_field_expected(partial, status, "1: qk_rope_head_dim numbers of a head turn");
    if (family->partial == 0)
        return share == 1 || json_field_expected(partial, status, "1: whole heads are rotated");
    if (partial.value)
        kind->rotary = (size_t)((double)kind->head_dim * fmin(share, 2));
    return true;
}

// Whole heads are in pairs, of which a share turns.
static bool read_proportional(struct json_field object, struct config *c, struct status *status)
{
    struct layer_kind *kind = &c->kinds[0];
    struct json_field partial = config_key_of(object, "partial_rotary_factor");
    double share = 1;
    if (!json_field_number(partial, 0, 1, &share, status) ||
        !json_field_number(config_key_of(object, "factor"), 1, 1e300, &kind->rope_scaling.factor, status))
        return false;
    size_t pairs = (size_t)(share * (double)kind->head_dim) / 2;
    if (pairs == 0)
        return json_field_expected(partial, status, "a share of head_dim %zu that has a pair", kind->head_dim);
    if (2 * pairs < kind->head_dim) {
        kind->rope = ROPE_PROPORTIONAL;
        kind->rotary = 2 * pairs;
    }
    return true;
}

static struct json_field type_of(struct json_field object)
{
    struct json_field type = config_key_of(object, "rope_type");
    return type.value ? type : config_key_of(object, "type");
}

// One object of RoPE: its base, and how it is scaled.
static bool read_rope_object(struct rope rope, double *theta, struct config *c, struct status *status)
{
    struct json_field object = rope.object, type = type_of(object);
    const char *name = "default", *types = "default, linear, dynamic, llama3, yarn, longrope or proportional";
    types = rope.local                  ? "default in layers with a window"
            : rope.family->default_rope ? "default or longrope, for which transformers takes su and yarn, too"
                                        : types;
    if (!json_is_object(object.value))
        return json_field_expected(object, status, "an object or null");
    static const char *const types_of_layers[] = {"full_attention", "sliding_attention", "linear_attention"};
    for (size_t i = 0; i < sizeof types_of_layers / sizeof *types_of_layers; i++) {
        struct json_field nested = json_field_get(object, types_of_layers[i]);
        if (nested.value)
            return json_field_fail(nested, status, "transformers reads no RoPE by type of layer here");
    }
    if (!json_field_text(type, types, &name, status) ||
        !json_field_number(config_key_of(object, "rope_theta"), 1e-300, 1e300, theta, status))
        return false;
    bool proportional = strcmp(name, "proportional") == 0 && !rope.local && !rope.family->default_rope &&
                        rope.family->partial == 0 && rope.family->rope == ROPE_HALVES;
    if (proportional)
        return read_proportional(object, c, status);
    if (!read_partial(object, rope.family, &c->kinds[0], status))
        return false;
    if (strcmp(name, "default") == 0 || (rope.family->axes && strcmp(name, "mrope") == 0))
        return true;
    bool longrope = strcmp(name, "longrope") == 0 ||
                    (rope.family->default_rope && (strcmp(name, "su") == 0 || strcmp(name, "yarn") == 0));
    if (longrope && !rope.local)
        return read_longrope(rope, c, status);
    if (!rope.local && !rope.family->default_rope) {
        if (strcmp(name, "llama3") == 0)
            return read_llama3(rope, c, status);
        if (strcmp(name, "yarn") == 0)
            return read_yarn(rope, c, status);
        if (strcmp(name, "dynamic") == 0)
            return read_dynamic(rope, c, status);
        if (strcmp(name, "linear") == 0)
            return required_number(config_key_of(object, "factor"), 1, &c->kinds[0].rope_scaling.factor, status);
    }
    return json_field_expected(type, status, "%s", types);
}

// Latent attention multiplies scores by a square that follows from mscale_all_dim and factor, unless the type is
// default.
static bool read_score_scale(struct rope rope, struct config *c, struct status *status)
{
    const struct rope_scaling *r = &c->kinds[0].rope_scaling;
    const char *type = json_string_value(type_of(rope.object).value);
    struct json_field all = config_key_of(rope.object, "mscale_all_dim");
    double scale = 0;
    if (rope.family->latent.kv_rank == 0 || !type || strcmp(type, "default") == 0)
        return true;
    if (!json_field_number(all, 0, 1e6, &scale, status))
        return false;
    if (scale > 0 && (r->longrope || r->factor == 0))
        return json_field_expected(all, status,
                                   "0: it scales scores beside linear, dynamic, llama3 and yarn alone");
    c->kinds[0].query_scale = scale > 0 ? family_score_scale(r->factor, scale) : 0;
    return true;
}

// Layers with a window and those without have RoPE of their own: rope_scaling is of the latter, rope_parameters has
// an object for each.
static bool read_rope_by_layers(struct json_field scaling, struct json_field parameters,
                                const struct family *family, struct config *c, struct local_layers *local_layers,
                                struct status *status)
{
    struct rope full = {config_key_of(parameters, family_layer_types[0]), {0}, family, false};
    struct rope local = {config_key_of(parameters, family_layer_types[1]), {0}, family, true};
    const char *name;
    json_t *value;
    if (parameters.value && !json_is_object(parameters.value))
        return json_field_expected(parameters, status, "an object or null");
    json_object_foreach(parameters.value, name, value)
    {
        if (strcmp(name, family_layer_types[0]) != 0 && strcmp(name, family_layer_types[1]) != 0) {
            return json_field_fail(
                json_field_get(parameters, name), status,
                "belongs in full_attention or sliding_attention: transformers does not read it here");
        }
    }
    struct json_field type = config_key_of(scaling, "type");
    if (type.value && !json_field_get(scaling, "rope_type").value) {
        return json_field_fail(type, status,
                               "transformers reads rope_type alone in this model type, and scales nothing: leave "
                               "it out, or call it rope_type");
    }
    if (scaling.value && parameters.value)
        return json_field_fail(scaling, status, "rope_parameters is there, too: keep one of them");
    if (family->global_heads && parameters.value && (!full.object.value || !local.object.value))
        return json_field_expected(full.object.value ? local.object : full.object, status,
                                   "an object: transformers has no default beside another type of layer");
    full.object = scaling.value ? scaling : full.object;
    if (full.object.value) {
        c->kinds[0].rope = family->rope;
        c->kinds[0].rotary = 0;
    }
    return (!full.object.value || read_rope_object(full, &c->kinds[0].rope_theta, c, status)) &&
           (!local.object.value || read_rope_object(local, &local_layers->rope_theta, c, status));
}

// As transformers has it where a file has no RoPE: Ministral 3's.
static void set_ministral_rope(struct layer_kind *kind)
{
    kind->rope_theta = 1e6;
    kind->rope_scaling = (struct rope_scaling){.factor = 16,
                                               .low_freq_factor = 1,
                                               .high_freq_factor = 32,
                                               .original_context = 16384,
                                               .attention_factor = 1};
    kind->position_scale = (struct position_scale){.beta = 0.1, .length = 16384};
}

// Likewise gpt-oss's.
static void set_gpt_oss_rope(struct layer_kind *kind)
{
    kind->rope_scaling = (struct rope_scaling){.factor = 32,
                                               .low_freq_factor = 1,
                                               .high_freq_factor = 32,
                                               .original_context = 4096,
                                               .attention_factor = rope_yarn_gain(32),
                                               .untruncated = true};
}

static bool read_position_scale(struct json_field object, struct layer_kind *kind, struct status *status)
{
    struct json_field beta = config_key_of(object, "llama_4_scaling_beta"),
                      original = config_key_of(object, "original_max_position_embeddings");
    struct position_scale *scale = &kind->position_scale;
    scale->length = kind->rope_scaling.dynamic ? 0 : kind->rope_scaling.original_context;
    if (scale->length == 0 && !original.value)
        return json_field_expected(original, status, "a number of tokens, which queries are scaled by");
    if (!required_number(beta, 0, &scale->beta, status) ||
        (scale->length == 0 && !json_field_count(original, 1, JSON_INTEGER_MAX, "", &scale->length, status)))
        return false;
    if (scale->beta == 0)
        *scale = (struct position_scale){0};
    return true;
}

// By layer, in place of rope_theta.
static bool read_layer_thetas(struct json_field field, struct config *c, struct status *status)
{
    if (!field.value)
        return true;
    if (!json_is_array(field.value) || json_array_size(field.value) != c->layers)
        return json_field_expected(field, status, "a list of %zu numbers, one per layer", c->layers);
    for (size_t l = 0; l < c->layers; l++) {
        double theta = 0;
        struct json_field item = json_field_at(field, l);
        if (!json_field_number(item, 0, 1e300, &theta, status))
            return false;
        if (theta == 0 || (l > 0 && theta != c->kinds[0].rope_theta))
            return json_field_fail(item, status, "layers with a RoPE of their own, or none, are not read");
        c->kinds[0].rope_theta = theta;
    }
    return true;
}

// null is false there.
static bool read_interleave(struct json_field field, struct layer_kind *kind, struct status *status)
{
    bool interleaved = !json_is_null(field.value);
    if (json_field_given(field) && !json_field_bool(field, &interleaved, status))
        return false;
    kind->rope = interleaved ? ROPE_INTERLEAVED : ROPE_HALVES;
    return true;
}

// The object's rope_theta counts before the root's.
static bool is_theta_null(struct json_field root, struct json_field object)
{
    const json_t *own = json_object_get(object.value, "rope_theta");
    return json_is_null(own ? own : json_object_get(root.value, "rope_theta"));
}

// Sets rope_theta, that of layers with a window, and rope_scaling of a config whose max_context is set. There are
// two spellings: rope_theta beside rope_scaling, which counts unless it is empty; or, from transformers 5 on, all
// within rope_parameters. False and a status that names the key otherwise.
static bool read_rope(struct json_field root, const struct family *family, struct config *c,
                      struct local_layers *local, struct status *status)
{
    struct json_field scaling = config_key_of(root, "rope_scaling"),
                      parameters = config_key_of(root, "rope_parameters");
    if (json_is_object(scaling.value) && json_object_size(scaling.value) == 0)
        scaling.value = NULL;
    c->kinds[0].rope_theta = family->rope_theta;
    double share = family->partial > 0 ? family->partial : family->proportional;
    c->kinds[0].rope = family->proportional > 0 ? ROPE_PROPORTIONAL : family->rope;
    if (family->latent.kv_rank == 0)
        c->kinds[0].rotary = (size_t)(share * (double)c->kinds[0].head_dim);
    local->rope_theta = family->local_rope_theta;
    if (family->no_rope == NO_ROPE_NULL_THETA && is_theta_null(root, scaling.value ? scaling : parameters))
        c->kinds[0].rope = ROPE_NONE;
    if (c->kinds[0].rope == ROPE_NONE)
        return true;
    if (family->rotary_keyed &&
        !json_field_count(config_key_of(root, "rotary_dim"), 1, SIZE_LIMIT, "", &c->kinds[0].rotary, status))
        return false;
    if (family->interleaves && !read_interleave(json_field_get(root, "rope_interleave"), &c->kinds[0], status))
        return false;
    if (!json_field_number(config_key_of(root, "rope_theta"), 1e-300, 1e300, &c->kinds[0].rope_theta, status) ||
        (family->local_rope_key && !json_field_number(config_key_of(root, family->local_rope_key), 1e-300, 1e300,
                                                      &local->rope_theta, status)) ||
        !read_partial(root, family, &c->kinds[0], status))
        return false;
    if (family->local_rope_theta > 0)
        return read_rope_by_layers(scaling, parameters, family, c, local, status);
    struct rope rope = {scaling.value ? scaling : parameters, root, family, false};
    if (family->scales_positions && !rope.object.value)
        set_ministral_rope(&c->kinds[0]);
    if (family->keys == KEYS_GPT_OSS && !rope.object.value)
        set_gpt_oss_rope(&c->kinds[0]);
    return (!rope.object.value || read_rope_object(rope, &c->kinds[0].rope_theta, c, status)) &&
           read_score_scale(rope, c, status) &&
           (!family->scales_positions || !rope.object.value ||
            read_position_scale(rope.object, &c->kinds[0], status)) &&
           (!family->multiplies || read_layer_thetas(config_key_of(root, "layer_rope_theta"), c, status));
}

static bool folder_rope_decode(struct json_field root, const struct family *family, struct config *c,
                               struct local_layers *local, struct status *status)
{
    struct layer_kind *kind = &c->kinds[0];
    if (!read_rope(root, family, c, local, status))
        return false;
    if (family->partial > 0 && (kind->rotary < 2 || kind->rotary > kind->head_dim || kind->rotary % 2)) {
        struct json_field parameters = config_key_of(root, "rope_parameters"),
                          of_rope = config_key_of(parameters, "partial_rotary_factor"),
                          partial = of_rope.value ? of_rope : config_key_of(root, "partial_rotary_factor");
        return json_field_expected(partial, status, "a share of head_dim %zu that is an even number",
                                   kind->head_dim);
    }
    if (kind->rotary == kind->head_dim)
        kind->rotary = 0;
    return true;
}

#define SLIDING_WINDOW    4096 // default
#define FIRST_WITH_WINDOW 28
#define FIRST_OF_DOTS     62

// The language model in config.json: all of it, or its text_config.
struct text {
    struct json_field root;
    const struct composite *composite; // NULL: text alone
    const struct family *family;
};

static const struct family *find_family(const char *model_type)
{
    const struct family *family = families;
    while (family->model_type && strcmp(family->model_type, model_type) != 0)
        family++;
    return family->model_type ? family : NULL;
}

// Returns NULL and a status for unsupported families.
static const struct family *read_family(struct json_field root, struct status *status)
{
    struct names names = {0};
    for (const struct family *f = families; f->model_type; f++)
        names_add(&names, f->model_type);
    struct json_field field = config_key_of(root, "model_type");
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
    const char *model_type = json_string_value(config_key_of(root, "model_type").value);
    const struct composite *composite = composites;
    while (model_type && composite->model_type && strcmp(composite->model_type, model_type) != 0)
        composite++;
    return model_type && composite->model_type ? composite : NULL;
}

static bool find_text(struct json_field root, struct text *text, struct status *status)
{
    const struct composite *composite = find_composite(root);
    struct json_field own = config_key_of(root, "text_config");
    bool flat = composite && composite->flat && !own.value;
    *text = (struct text){.root = composite && !flat ? own : root, .composite = composite};
    if (!json_is_object(text->root.value)) {
        json_field_expected(text->root, status, "an object");
        return false;
    }
    bool named = !composite || (!composite->fixed && config_key_of(own, "model_type").value);
    text->family = named ? read_family(text->root, status) : find_family(composite->text_type);
    // As in AutoConfig: a Mistral file with layer_types is a Ministral.
    if (text->family && !composite && strcmp(text->family->model_type, "mistral") == 0 &&
        json_field_get(root, "layer_types").value)
        text->family = find_family("ministral");
    return text->family;
}

// Text models always have these keys, although transformers has defaults.
static bool read_required(const struct text *text, struct config *c, struct status *status)
{
    const struct {
        const char *key;
        size_t *value;
    } sizes[] = {{"hidden_size", &c->width},
                 {"num_hidden_layers", &c->layers},
                 {"num_attention_heads", &c->kinds[0].heads},
                 {"intermediate_size", &c->ffn},
                 {"vocab_size", &c->vocab}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct json_field field = config_key_of(text->root, sizes[i].key);
        const struct mixture *mixture = text->family->mixture;
        bool spared = sizes[i].value == &c->ffn && mixture && mixture->width_key && mixture->layers == EXPERTS_ALL;
        *sizes[i].value = text->composite ? text->family->sizes[i] : 0;
        if (spared)
            continue;
        if (!field.value && !*sizes[i].value)
            return json_field_expected(field, status, "a whole number above 0");
        if (!json_field_count(field, 1, SIZE_LIMIT, "", sizes[i].value, status))
            return false;
    }
    return true;
}

static bool read_sizes(const struct text *text, struct config *c, struct status *status)
{
    struct json_field root = text->root;
    const struct family *family = text->family;
    struct layer_kind *kind = &c->kinds[0];
    if (!read_required(text, c, status))
        return false;
    // An absent key means the class's number, null one per query head.
    bool null_heads = json_is_null(json_field_get(root, "num_key_value_heads").value);
    kind->kv_heads = family->kv_heads && !null_heads ? family->kv_heads : kind->heads;
    c->max_context = family->max_context;
    c->norm_epsilon =
        text->composite && text->composite->norm_epsilon > 0 ? text->composite->norm_epsilon : family->norm_epsilon;
    c->tied = family->tied;
    return json_field_count(config_key_of(root, "num_key_value_heads"), 1, SIZE_LIMIT, "", &kind->kv_heads,
                            status) &&
           json_field_count(config_key_of(root, "max_position_embeddings"), 1, JSON_INTEGER_MAX, "",
                            &c->max_context, status) &&
           json_field_number(config_key_of(root, family->epsilon_key ? family->epsilon_key : "rms_norm_eps"),
                             1e-300, 1, &c->norm_epsilon, status) &&
           json_field_bool(config_key_of(root, "tie_word_embeddings"), &c->tied, status);
}

static bool read_head_dim(struct json_field root, const struct family *family, struct config *c,
                          struct status *status)
{
    struct json_field head_dim = config_key_of(root, "head_dim");
    struct layer_kind *kind = &c->kinds[0];
    bool standard = family->head_dim && !json_is_null(json_field_get(root, "head_dim").value);
    kind->head_dim = standard ? family->head_dim : c->width / kind->heads;
    if (!head_dim.value && kind->head_dim * kind->heads != c->width && !standard) {
        return json_field_fail(config_key_of(root, "num_attention_heads"), status,
                               "%zu heads do not divide hidden_size %zu, and there is no head_dim", kind->heads,
                               c->width);
    }
    if (!json_field_count(head_dim, 1, SIZE_LIMIT, "", &kind->head_dim, status))
        return false;
    return family->keys != KEYS_OLMOE || kind->head_dim * kind->heads == c->width ||
           json_field_expected(head_dim, status, "%zu: norms of queries are of hidden_size %zu",
                               c->width / kind->heads, c->width);
}

// Tells whether attention computes heads of `head_dim`, which follows from the field.
static bool check_head_dim(struct json_field field, size_t head_dim, struct status *status)
{
    return (head_dim % 2 == 0 && head_dim <= 512) ||
           json_field_expected(field, status,
                               "a number with which head_dim is even and at most 512, where it is %zu", head_dim);
}

// The widths of latents and the parts of heads, in place of head_dim, which transformers makes of them;
// some take it for qk_rope_head_dim.
static bool read_latent(struct json_field root, const struct family *family, struct config *c,
                        struct status *status)
{
    const struct latent_sizes *standard = &family->latent;
    struct json_field q_rank = json_field_get(root, "q_lora_rank"), alias = json_field_get(root, "head_dim"),
                      nope_field = config_key_of(root, "qk_nope_head_dim"),
                      rope_field = config_key_of(root, "qk_rope_head_dim");
    struct layer_kind *kind = &c->kinds[0];
    size_t nope = standard->nope, aliased = 0;
    kind->mixer = MIXER_LATENT;
    kind->q_rank = json_is_null(q_rank.value) ? 0 : standard->q_rank;
    kind->kv_rank = standard->kv_rank;
    kind->rotary = standard->rope;
    kind->value_dim = standard->value ? standard->value : c->width / kind->heads;
    if (standard->value == 0 && c->width % kind->heads)
        return json_field_fail(config_key_of(root, "num_attention_heads"), status,
                               "%zu heads do not divide hidden_size %zu", kind->heads, c->width);
    if ((family->keys & (KEYS_GLM4_MOE_LITE | KEYS_DEEPSEEK_V3 | KEYS_YOUTU)) &&
        !json_field_count(alias, 1, SIZE_LIMIT, "", &aliased, status))
        return false;
    kind->rotary = aliased && family->keys == KEYS_GLM4_MOE_LITE ? aliased : kind->rotary;
    if ((json_field_given(q_rank) && !json_field_count(q_rank, 1, SIZE_LIMIT, "", &kind->q_rank, status)) ||
        !json_field_count(config_key_of(root, "kv_lora_rank"), 1, SIZE_LIMIT, "", &kind->kv_rank, status) ||
        !json_field_count(nope_field, 1, SIZE_LIMIT, "", &nope, status) ||
        !json_field_count(rope_field, 1, SIZE_LIMIT, "", &kind->rotary, status) ||
        !json_field_count(config_key_of(root, "v_head_dim"), 1, SIZE_LIMIT, "", &kind->value_dim, status))
        return false;
    kind->head_dim = nope + kind->rotary;
    if (aliased && aliased != kind->rotary)
        return json_field_expected(alias, status, "%zu, as qk_rope_head_dim is", kind->rotary);
    if (kind->rotary % 2)
        return json_field_expected(rope_field.value ? rope_field : alias, status, "an even number");
    if (!check_head_dim(nope_field.value ? nope_field : rope_field, kind->head_dim, status))
        return false;
    return kind->kv_heads == kind->heads ||
           json_field_expected(config_key_of(root, "num_key_value_heads"), status,
                               "%zu, as num_attention_heads: every head has keys and values of its own",
                               kind->heads);
}

static bool check_all_listed(struct json_field list, size_t layers, struct status *status)
{
    bool all = json_is_array(list.value) && json_array_size(list.value) == layers;
    for (size_t l = 0; all && l < layers; l++)
        all = json_integer_value(json_array_get(list.value, l)) == (json_int_t)l + 1;
    return all ||
           json_field_expected(list, status, "a list of each layer from 1 to %zu, num_hidden_layers", layers);
}

// Which layers of Kimi Linear are of Kimi Delta Attention: none may be.
static bool read_kda(struct json_field root, const struct family *family, const struct config *c,
                     struct status *status)
{
    static const struct names names = {2, {"full_attention", "linear_attention"}};
    struct json_field types = config_key_of(root, "layer_types"), own = json_field_get(root, "linear_attn_config");
    struct json_field listed = config_key_of(own, "kda_layers"), full = config_key_of(own, "full_attn_layers");
    if (!family->kda)
        return true;
    if (types.value && (!json_is_array(types.value) || json_array_size(types.value) != c->layers))
        return json_field_expected(types, status, "a list of %zu types, one for each of num_hidden_layers",
                                   c->layers);
    if (own.value && !json_is_object(own.value))
        return json_field_expected(own, status, "an object");
    if (listed.value && !json_is_array(listed.value))
        return json_field_expected(listed, status, "a list of layers, the lowest of which is 1");
    if (!types.value && listed.value && full.value && json_array_size(listed.value) == 0)
        return check_all_listed(full, c->layers, status);
    for (size_t l = 0; l < c->layers; l++) {
        size_t linear = l == 0 || l % 4 > 0;
        if (types.value && !json_field_choice(json_field_at(types, l), &names, "type of layer", &linear, status))
            return false;
        if (linear) {
            return json_field_fail(types.value    ? json_field_at(types, l)
                                   : listed.value ? listed
                                                  : types,
                                   status,
                                   "layers of Kimi Delta Attention (KDA) are not computed, those of latent "
                                   "attention are");
        }
    }
    return true;
}

// MiniCPM's: of embeddings, of what blocks add, by the depth, and of logits, by the width.
static bool read_depth_scales(struct json_field root, const struct family *family, struct config *c,
                              struct status *status)
{
    struct json_field depth = json_field_get(root, "scale_depth"), width = json_field_get(root, "dim_model_base");
    double layers = sqrt((double)c->layers), embedding = 12, residual = json_is_null(depth.value) ? layers : 1.4;
    size_t base = json_is_null(width.value) ? c->width : 256;
    if (!family->depth_scaled)
        return true;
    if (!json_field_number(config_key_of(root, "scale_emb"), 1e-6, 1e6, &embedding, status) ||
        (json_field_given(depth) && !json_field_number(depth, 1e-6, 1e6, &residual, status)) ||
        (json_field_given(width) && !json_field_count(width, 1, SIZE_LIMIT, "", &base, status)))
        return false;
    c->embedding_scale = embedding == 1 ? 0 : embedding;
    c->residual_scale = residual == layers ? 0 : residual / layers;
    c->logits_scale = base == c->width ? 0 : (double)base / (double)c->width;
    return true;
}

// The head belongs to the whole model, so the whole model's key ties it.
static bool read_tie(struct json_field root, const struct composite *composite, struct config *c,
                     struct status *status)
{
    bool tied = composite->tied;
    if (!json_field_bool(config_key_of(root, "tie_word_embeddings"), &tied, status))
        return false;
    c->tied = tied || (composite->tied_by_text && c->tied);
    return true;
}

// padding_idx of the class's nn.Embedding; negative numbers count from the end. A class default beyond the
// vocabulary counts as none.
static bool read_pad(const struct text *text, struct config *c, struct status *status)
{
    struct json_field field = json_field_get(text->root, "pad_token_id");
    const struct family *family = text->family;
    if (!field.value) {
        c->padded = family->padded && family->pad < c->vocab;
        c->pad = c->padded ? family->pad : 0;
        return true;
    }
    if (json_is_null(field.value))
        return true;
    json_int_t id = json_integer_value(field.value), vocab = (json_int_t)c->vocab;
    if (!json_is_integer(field.value) || id < -vocab || id >= vocab)
        return json_field_expected(field, status, "null or a token id from 0 to %lld", (long long)vocab - 1);
    c->padded = true;
    c->pad = (size_t)(id < 0 ? id + vocab : id);
    return true;
}

static bool set_full(struct config *c, struct json_field field, size_t layer, struct status *status)
{
    if (layer >= CONFIG_KIND_LAYERS)
        return json_field_fail(field, status, "layers without a sliding window must be among the first %d",
                               CONFIG_KIND_LAYERS);
    c->kind_of[layer] = 1;
    return true;
}

// Reads which layers have no window from `types`. without: why windows are impossible; NULL: they are possible.
static bool read_layer_types(struct json_field types, const char *without, struct config *c, struct status *status)
{
    struct names names = {0};
    names_add_all(&names, family_layer_types);
    if (!json_is_array(types.value) || json_array_size(types.value) != c->layers)
        return json_field_expected(types, status, "a list of %zu types, one per layer", c->layers);
    for (size_t l = 0; l < c->layers; l++) {
        struct json_field type = json_field_at(types, l);
        size_t sliding = 0;
        if (!json_field_choice(type, &names, "type of layer", &sliding, status))
            return false;
        if (sliding && without)
            return json_field_expected(type, status, "\"full_attention\": %s", without);
        if (!sliding && !without && !set_full(c, type, l, status))
            return false;
    }
    return true;
}

// Windows of all layers but every n-th, or as listed.
static bool read_pattern(struct json_field root, const struct family *family, struct config *c,
                         struct local_layers local, struct status *status)
{
    struct json_field window = json_field_get(root, "sliding_window"), types = config_key_of(root, "layer_types");
    struct json_field each_field =
        family->pattern_key ? config_key_of(root, family->pattern_key) : (struct json_field){0};
    size_t each = family->full_each, length = family->window ? family->window : SLIDING_WINDOW;
    if (json_is_null(window.value) && family->no_rope == NO_ROPE_FULL)
        return !types.value || read_layer_types(types, "sliding_window is null", c, status);
    if (!json_field_count(window, 1, JSON_INTEGER_MAX, " of tokens", &length, status) ||
        !json_field_count(each_field, 1, SIZE_LIMIT, "", &each, status))
        return false;
    if (types.value && !read_layer_types(types, NULL, c, status))
        return false;
    for (size_t l = family->full_first ? 0 : each - 1; !types.value && l < c->layers; l += each)
        if (!set_full(c, each_field, l, status))
            return false;
    if (family->full_last && !set_full(c, types, c->layers - 1, status))
        return false;
    config_add_window(c, length, local);
    return true;
}

// The layers before max_window_layers have no window, later ones have one; or every other layer before it has one,
// and no later one.
static bool read_first_window(struct json_field root, enum sliding sliding, struct config *c, struct status *status)
{
    struct json_field field = config_key_of(root, "max_window_layers");
    size_t first = sliding == SLIDING_ABOVE ? FIRST_OF_DOTS : FIRST_WITH_WINDOW;
    if (!json_field_count(field, 0, SIZE_LIMIT, "", &first, status))
        return false;
    for (size_t l = 0; l < c->layers; l++) {
        bool full = sliding == SLIDING_ALTERNATE ? l % 2 || l >= first : l < first;
        if (full && !set_full(c, field, l, status))
            return false;
    }
    return true;
}

static bool read_sliding(struct json_field root, const struct family *family, struct config *c,
                         struct local_layers local, struct status *status)
{
    struct json_field window = json_field_get(root, "sliding_window"), types = config_key_of(root, "layer_types");
    enum sliding sliding = family->sliding;
    bool first = sliding == SLIDING_SOME || sliding == SLIDING_ALTERNATE || sliding == SLIDING_ABOVE;
    bool switched = sliding == SLIDING_SOME || sliding == SLIDING_ALTERNATE || sliding == SLIDING_SWITCHED;
    bool listed = first || sliding == SLIDING_LISTED;
    bool windows = sliding == SLIDING_ALL || sliding == SLIDING_LISTED || sliding == SLIDING_ABOVE ||
                   (sliding == SLIDING_GIVEN && window.value);
    size_t length = SLIDING_WINDOW;
    if (sliding == SLIDING_PATTERN)
        return read_pattern(root, family, c, local, status);
    if (switched && !json_field_bool(config_key_of(root, "use_sliding_window"), &windows, status))
        return false;
    const char *without = !windows                     ? "use_sliding_window is not true"
                          : json_is_null(window.value) ? "sliding_window is null"
                                                       : NULL;
    if (!without && !json_field_count(window, 1, JSON_INTEGER_MAX, " of tokens", &length, status))
        return false;
    if (listed && types.value && !read_layer_types(types, without, c, status))
        return false;
    if (!without && first && !types.value && !read_first_window(root, sliding, c, status))
        return false;
    if (!without)
        config_add_window(c, length, local);
    return true;
}

static bool read_biases(struct json_field root, const struct family *family, struct config *c,
                        struct status *status)
{
    struct json_field given = {0};
    for (const struct bias_key *key = bias_keys; key->key; key++) {
        struct json_field field = config_key_of(root, key->key);
        bool bias = family_bias(key, c);
        if (!(key->sets & family->keys))
            continue;
        if (!json_field_bool(field, &bias, status))
            return false;
        given = field.value ? field : given;
        family_set_bias(key, c, bias);
    }
    if (c->mlp_bias && c->experts.shared_width > 0)
        return json_field_fail(given, status, "biases of the shared expert are not computed");
    return family->keys != KEYS_INTERNLM3 || c->qkv_bias == c->mlp_bias ||
           json_field_fail(given, status,
                           "transformers takes biases of all projections of an internlm3 or of none: make "
                           "attention_bias and mlp_bias (qkv_bias and bias) equal");
}

// no_rope_layers has a 0 for each layer without positions.
static bool read_no_rope_layers(struct json_field root, struct config *c, bool *without, struct status *status)
{
    struct json_field list = config_key_of(root, "no_rope_layers"),
                      interval = config_key_of(root, "no_rope_layer_interval");
    size_t each = 4, last = c->layers < CONFIG_KIND_LAYERS ? c->layers : CONFIG_KIND_LAYERS;
    if (!json_field_count(interval, 1, SIZE_LIMIT, "", &each, status))
        return false;
    if (list.value && (!json_is_array(list.value) || json_array_size(list.value) < c->layers))
        return json_field_expected(list, status, "a list of %zu numbers, one per layer", c->layers);
    for (size_t l = 0; l < c->layers; l++) {
        json_int_t rope = json_integer_value(json_array_get(list.value, l));
        if (list.value && rope != 0 && rope != 1)
            return json_field_expected(json_field_at(list, l), status, "0 or 1");
        bool none = list.value ? rope == 0 : (l + 1) % each == 0;
        if (none && l >= last)
            return json_field_fail(list, status, "layers without positions must be among the first %d",
                                   CONFIG_KIND_LAYERS);
        without[l < last ? l : 0] |= none;
    }
    return true;
}

// Reads which layers are Gated DeltaNet; `each`: every so many layers, from the lowest on, the last is attention,
// and with `both` the highest one if no other is.
static bool read_delta_types(struct json_field types, size_t each, bool both, struct config *c,
                             struct status *status)
{
    static const struct names names = {2, {"full_attention", "linear_attention"}};
    size_t count = 0;
    if (types.value && (!json_is_array(types.value) || json_array_size(types.value) != c->layers))
        return json_field_expected(types, status, "a list of %zu types, one per layer", c->layers);
    for (size_t l = 0; l < c->layers; l++) {
        size_t delta = (l + 1) % each > 0 && !(both && l + 1 == c->layers && l < each);
        if (types.value && !json_field_choice(json_field_at(types, l), &names, "type of layer", &delta, status))
            return false;
        if (delta && l >= CONFIG_KIND_LAYERS) {
            return json_field_fail(types, status, "layers of Gated DeltaNet must be among the first %d",
                                   CONFIG_KIND_LAYERS);
        }
        if (delta)
            c->kind_of[l] = CONFIG_DELTA;
        count += delta;
    }
    return !both || (count > 0 && count < c->layers) ||
           json_field_expected(types, status, "layers of both types, as transformers does");
}

static bool read_no_rope(struct json_field root, const struct family *family, struct config *c,
                         struct status *status)
{
    bool without[CONFIG_KIND_LAYERS] = {false};
    if (family->no_rope == NO_ROPE_LISTED && !read_no_rope_layers(root, c, without, status))
        return false;
    bool windows = !json_is_null(json_field_get(root, "sliding_window").value);
    bool full = family->no_rope == NO_ROPE_UNWINDOWED || (family->no_rope == NO_ROPE_FULL && windows);
    for (size_t l = 0; full && l < c->layers && l < CONFIG_KIND_LAYERS; l++)
        without[l] = config_kind(c, l)->window == 0;
    CHECK(config_remove_positions(c, without)); // of at most two kinds
    return true;
}

static bool read_delta(struct json_field root, const struct family *family, struct config *c, struct status *status)
{
    struct layer_kind *kind = &c->kinds[CONFIG_DELTA];
    struct json_field taps = config_key_of(root, "linear_conv_kernel_dim");
    size_t each = family->full_each, width = 4;
    bool negative = family->split;
    if (!family->delta)
        return true;
    c->kinds[0].gated = family->gated;
    *kind = (struct layer_kind){.mixer = family->split ? MIXER_DELTA_SPLIT : MIXER_DELTA,
                                .heads = family->split ? c->kinds[0].heads : 32,
                                .kv_heads = family->split ? c->kinds[0].heads : 16,
                                .norms_before = family->split,
                                .gate_epsilon = family->split ? FAMILY_SPLIT_EPSILON : c->norm_epsilon};
    if (c->activation != ACTIVATION_SILU)
        return json_field_expected(config_key_of(root, "hidden_act"), status,
                                   "silu: no other activation is computed behind a convolution");
    if (!json_field_count(taps, 1, SIZE_LIMIT, "", &width, status))
        return false;
    if (width != 4)
        return json_field_expected(taps, status, "4: the convolution that is computed has 4 taps");
    if (!json_field_count(config_key_of(root, "linear_num_value_heads"), 1, SIZE_LIMIT, "", &kind->heads, status) ||
        !json_field_count(config_key_of(root, "linear_num_key_heads"), 1, SIZE_LIMIT, "", &kind->kv_heads, status))
        return false;
    kind->head_dim = family->split ? 3 * c->width / (4 * kind->kv_heads) : 128;
    if (!json_field_count(config_key_of(root, "linear_key_head_dim"), 1, SIZE_LIMIT, "", &kind->head_dim, status))
        return false;
    kind->value_dim = family->split ? 2 * kind->head_dim : 128;
    if (!json_field_count(config_key_of(root, "linear_value_head_dim"), 1, SIZE_LIMIT, "", &kind->value_dim,
                          status) ||
        (family->split && !json_field_bool(config_key_of(root, "linear_allow_neg_eigval"), &negative, status)) ||
        (!family->split &&
         !json_field_count(config_key_of(root, "full_attention_interval"), 1, SIZE_LIMIT, "", &each, status)))
        return false;
    kind->beta_scale = negative ? 2 : 0;
    return read_delta_types(config_key_of(root, "layer_types"), each, family->split, c, status);
}

static bool read_activation(struct json_field root, const struct family *family, struct config *c,
                            struct status *status)
{
    // Names of equal functions in transformers.
    static const struct {
        const char *name;
        enum activation activation;
    } same[] = {{"silu", ACTIVATION_SILU},
                {"swish", ACTIVATION_SILU},
                {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
                {"gelu_python_tanh", ACTIVATION_GELU_TANH},
                {"gelu_new", ACTIVATION_GELU_TANH}};
    struct json_field field = config_key_of(root, family->activation_key ? family->activation_key : "hidden_act");
    const char *name = json_string_value(field.value);
    c->activation = family->activation;
    if (!field.value || (family->mixture && family->mixture->clamped))
        return true;
    if (name && family->gelu_is_tanh && strcmp(name, "gelu") == 0) {
        c->activation = ACTIVATION_GELU_TANH;
        return true;
    }
    for (size_t i = 0; name && i < sizeof same / sizeof *same; i++) {
        if (strcmp(name, same[i].name) == 0) {
            c->activation = same[i].activation;
            return true;
        }
    }
    return json_field_expected(field, status, "%s", "silu or gelu_pytorch_tanh: no other activation is computed");
}

// null means none.
static bool read_cap(struct json_field root, const char *key, double standard, double *cap, struct status *status)
{
    struct json_field field = json_field_get(root, key);
    *cap = json_is_null(field.value) ? 0 : standard;
    return json_is_null(field.value) || json_field_number(field, 1e-6, 1e6, cap, status);
}

// Heads of the layers without a window; `local` gets those of the others, which c has.
static bool read_global_heads(struct json_field root, struct config *c, struct local_layers *local,
                              struct status *status)
{
    static const struct names known = {2, {"head_dim", "num_key_value_heads"}};
    struct layer_kind *kind = &c->kinds[0];
    struct json_field embeddings = json_field_get(root, "hidden_size_per_layer_input"),
                      bidirectional = config_key_of(root, "use_bidirectional_attention"),
                      by_layer = json_field_get(root, "per_layer_config"),
                      dim = json_field_get(root, "global_head_dim"),
                      heads = config_key_of(root, "num_global_key_value_heads");
    const char *seen = json_string_value(bidirectional.value);
    if (!embeddings.value)
        return json_field_fail(embeddings, status,
                               "missing, which means 256: embeddings of each layer are not computed");
    if (bidirectional.value && (!seen || strcmp(seen, "vision") != 0))
        return json_field_expected(bidirectional, status, "null, or \"vision\": text sees no later keys");
    if (!json_field_bool(config_key_of(root, "attention_k_eq_v"), &kind->k_is_v, status))
        return false;
    kind->v_norm = true;
    *local = (struct local_layers){.kv_heads = kind->kv_heads, .head_dim = kind->head_dim};
    if (by_layer.value && json_object_size(by_layer.value) == 0)
        return json_field_expected(by_layer, status, "an object with one for each layer of full_attention");
    if (by_layer.value) {
        struct json_field of = json_field_get(by_layer, json_object_iter_key(json_object_iter(by_layer.value)));
        if (!json_field_object(of, &known, "per_layer_config", status))
            return false;
        dim = json_field_get(of, "head_dim");
        heads = json_field_get(of, "num_key_value_heads");
    } else {
        kind->head_dim = 512;
    }
    if (!kind->k_is_v && !by_layer.value)
        heads.value = NULL;
    if (!json_field_count(dim, 1, SIZE_LIMIT, "", &kind->head_dim, status) ||
        (dim.value && !check_head_dim(dim, kind->head_dim, status)) ||
        !json_field_count(heads, 1, SIZE_LIMIT, "", &kind->kv_heads, status))
        return false;
    return !heads.value || kind->heads % kind->kv_heads == 0 ||
           json_field_expected(heads, status, "a number that divides num_attention_heads %zu", kind->heads);
}

// Tells whether per_layer_config, which newer transformers writes, says the same of all layers without a window,
// and nothing of others.
static bool check_per_layer(struct json_field root, const struct config *c, struct status *status)
{
    struct json_field by_layer = config_key_of(root, "per_layer_config");
    size_t found = 0;
    for (size_t l = 0; by_layer.value && l < c->layers; l++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", l);
        struct json_field own = json_field_get(by_layer, name);
        const json_t *first = json_object_iter_value(json_object_iter(by_layer.value));
        found += own.value != NULL;
        if ((config_kind(c, l)->window == 0) != (own.value != NULL) || (own.value && !json_equal(own.value, first)))
            return json_field_expected(own.value ? own : by_layer, status,
                                       "the same head_dim and num_key_value_heads for each layer of "
                                       "full_attention, and for no other: layers of more shapes are not computed");
    }
    return !by_layer.value || found == json_object_size(by_layer.value) ||
           json_field_expected(by_layer, status, "layers from 0 to %zu alone", c->layers - 1);
}

// Granite's: attention's whole scale, and those of embeddings, of what blocks add and, inverse, of logits.
static bool read_multipliers(struct json_field root, struct config *c, struct status *status)
{
    double scale = 1, embedding = 1, residual = 1, logits = 1;
    if (!json_field_number(config_key_of(root, "attention_multiplier"), 1e-6, 1e6, &scale, status) ||
        !json_field_number(config_key_of(root, "embedding_multiplier"), 1e-6, 1e6, &embedding, status) ||
        !json_field_number(config_key_of(root, "residual_multiplier"), 1e-6, 1e6, &residual, status) ||
        !json_field_number(config_key_of(root, "logits_scaling"), 1e-6, 1e6, &logits, status))
        return false;
    c->kinds[0].query_scale = family_query_scale(&c->kinds[0], 1 / (scale * scale));
    c->embedding_scale = embedding == 1 ? 0 : embedding;
    c->residual_scale = residual == 1 ? 0 : residual;
    c->logits_scale = logits == 1 ? 0 : 1 / logits;
    return true;
}

// The activation, scales and caps.
static bool read_block(struct json_field root, const struct family *family, struct config *c, struct status *status)
{
    double scalar = 256;
    if (!read_activation(root, family, c, status))
        return false;
    c->embedding_scale = family->scales_embedding ? sqrt((double)c->width) : 0;
    if (family->scales_queries) {
        if (!json_field_number(config_key_of(root, "query_pre_attn_scalar"), 1e-6, 1e6, &scalar, status))
            return false;
        c->kinds[0].query_scale = family_query_scale(&c->kinds[0], scalar);
    }
    if (family->global_heads)
        c->kinds[0].query_scale = family_query_scale(&c->kinds[0], 1);
    if (family->logits_scale > 0) {
        c->logits_scale = family->logits_scale;
        if (!json_field_number(json_field_get(root, "logit_scale"), 1e-6, 1e6, &c->logits_scale, status))
            return false;
        c->logits_scale = c->logits_scale == 1 ? 0 : c->logits_scale;
    }
    c->kinds[0].sinks = family->sinks;
    if (family->multiplies && !read_multipliers(root, c, status))
        return false;
    return (family->cap == 0 || read_cap(root, "attn_logit_softcapping", family->cap, &c->kinds[0].cap, status)) &&
           ((family->logit_cap == 0 && !family->caps_logits) ||
            read_cap(root, "final_logit_softcapping", family->logit_cap, &c->logit_cap, status));
}

// Tells whether the name is a class of transformers, such as LlamaForCausalLM: a family's decoder, possibly with a
// head.
static bool is_class(const char *name)
{
    static const char *const heads[] = {"ForCausalLM",
                                        "Model",
                                        "TextModel",
                                        "ForConditionalGeneration",
                                        "ForSequenceClassification",
                                        "ForTokenClassification",
                                        "ForQuestionAnswering"};
    for (const struct family *family = families; family->model_type; family++) {
        size_t bytes = strlen(family->architecture) - strlen(heads[0]);
        for (size_t i = 0; strncasecmp(name, family->architecture, bytes) == 0 && i < sizeof heads / sizeof *heads;
             i++)
            if (strcmp(name + bytes, heads[i]) == 0)
                return true;
    }
    return false;
}

static bool check_architectures(struct json_field root, const struct family *family, struct status *status)
{
    struct json_field list = config_key_of(root, "architectures");
    if (!json_is_array(list.value) || json_array_size(list.value) == 0)
        return true;
    struct json_field first = json_field_at(list, 0);
    const char *name = json_string_value(first.value);
    return (name && is_class(name)) ||
           json_field_expected(first, status,
                               "a class that transformers makes of a %s, such as %s: another one is "
                               "another model, with code of its own",
                               family->model_type, family->architecture);
}

// Refuses the keys of transformers and of MLX, but for gpt-oss's experts in MXFP4, which are expanded.
static bool refuse_quantized(struct json_field root, const struct family *family, struct status *status)
{
    static const char *const keys[] = {"quantization_config", "quantization"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct json_field quantized = config_key_of(root, keys[i]);
        const char *method = json_string_value(json_object_get(quantized.value, "quant_method"));
        bool expanded = family->keys == KEYS_GPT_OSS && method && strcmp(method, "mxfp4") == 0;
        if (quantized.value && !expanded) {
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
    if (!json_is_object(root.value))
        return json_field_expected(root, status, "an object");
    struct text text;
    if (!find_text(root, &text, status))
        return false;
    const struct family *family = text.family;
    *composite = text.composite;
    if ((!text.composite && !check_architectures(root, family, status)) ||
        !config_keys_check(text.root, family->keys, family->model_type, status))
        return false;
    config->qkv_bias = family->qkv_bias;
    config->o_bias = family->o_bias;
    config->qk_norm = family->qk_norm;
    if (family->qk_norm_keyed &&
        !json_field_bool(config_key_of(text.root, "use_qk_norm"), &config->qk_norm, status))
        return false;
    config->whole_qk_norm = family->whole_qk_norm;
    config->unit_offset = family->unit_offset;
    config->centred = family->centred;
    config->parallel = family->parallel;
    config->layer_scalars = family->layer_scalars;
    config->fused = family->fused;
    config->glm_norms = family->glm_norms;
    if (text.composite)
        config->submodule = text.composite->submodule ? text.composite->submodule : "language_model";
    config->norms = family->norms;
    struct local_layers local = {0};
    bool latent = family->latent.kv_rank > 0;
    return read_sizes(&text, config, status) &&
           (latent ? read_latent : read_head_dim)(text.root, family, config, status) &&
           (!family->global_heads || read_global_heads(text.root, config, &local, status)) &&
           read_kda(text.root, family, config, status) && read_pad(&text, config, status) &&
           (!text.composite || read_tie(root, text.composite, config, status)) &&
           folder_rope_decode(text.root, family, config, &local, status) &&
           read_block(text.root, family, config, status) && read_depth_scales(text.root, family, config, status) &&
           read_sliding(text.root, family, config, local, status) &&
           (!family->global_heads || check_per_layer(text.root, config, status)) &&
           read_delta(text.root, family, config, status) && read_no_rope(text.root, family, config, status) &&
           folder_mixture_decode(text.root, family, config, status) &&
           read_biases(text.root, family, config, status) && refuse_quantized(root, family, status) &&
           refuse_quantized(text.root, family, status);
}
