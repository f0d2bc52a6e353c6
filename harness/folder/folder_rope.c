#include "harness/folder/folder_rope.h"
#include <string.h>

// Where RoPE's keys stand.
struct rope {
    struct json_field object; // with the type and its numbers
    struct json_field root;   // whose original_max_position_embeddings is the object's; or none
    const struct family *family;
    bool local; // of layers with a window
};

static bool read_original(struct rope rope, struct config *c, struct status *status)
{
    static const char key[] = "original_max_position_embeddings";
    struct json_field field = json_field_get(rope.root, key);
    field = field.value ? field : config_key_of(rope.object, key);
    c->rope_scaling.original_context = c->max_context;
    return json_field_count(field, 1, JSON_INTEGER_MAX, "", &c->rope_scaling.original_context, status);
}

static bool required_number(struct json_field field, double minimum, double *value, struct status *status)
{
    return field.value ? json_field_number(field, minimum, 1e300, value, status)
                       : json_field_expected(field, status, "a number");
}

static bool read_llama3(struct rope rope, struct config *c, struct status *status)
{
    struct rope_scaling *r = &c->rope_scaling;
    return required_number(config_key_of(rope.object, "factor"), 1, &r->factor, status) &&
           required_number(config_key_of(rope.object, "low_freq_factor"), 1e-300, &r->low_freq_factor, status) &&
           required_number(config_key_of(rope.object, "high_freq_factor"), 1e-300, &r->high_freq_factor, status) &&
           read_original(rope, c, status);
}

// As transformers has it: attention_factor, or by mscale and mscale_all_dim, or YaRN's own.
static bool read_yarn(struct rope rope, struct config *c, struct status *status)
{
    struct rope_scaling *r = &c->rope_scaling;
    // null means false there.
    struct json_field scaling = rope.object, truncate = json_field_get(scaling, "truncate");
    double scales[2] = {0, 0};
    *r = (struct rope_scaling){1, 1, 32, 0, 0};
    if (!required_number(config_key_of(scaling, "factor"), 1, &r->factor, status) ||
        !json_field_number(config_key_of(scaling, "beta_fast"), 1e-300, 1e300, &r->high_freq_factor, status) ||
        !json_field_number(config_key_of(scaling, "beta_slow"), 1e-300, 1e300, &r->low_freq_factor, status) ||
        !json_field_number(config_key_of(scaling, "mscale"), 0, 1e300, &scales[0], status) ||
        !json_field_number(config_key_of(scaling, "mscale_all_dim"), 0, 1e300, &scales[1], status) ||
        !read_original(rope, c, status))
        return false;
    if (truncate.value && !json_is_true(truncate.value))
        return json_field_expected(truncate, status, "true: the blended frequencies begin and end at whole ones");
    r->attention_factor = config_yarn_gain(r->factor);
    if (scales[0] > 0 && scales[1] > 0) {
        r->attention_factor =
            (1 + scales[0] * (r->attention_factor - 1)) / (1 + scales[1] * (r->attention_factor - 1));
    }
    return json_field_number(config_key_of(scaling, "attention_factor"), 1e-300, 1e300, &r->attention_factor,
                             status);
}

static bool read_whole(struct json_field object, struct status *status)
{
    struct json_field rotary = config_key_of(object, "partial_rotary_factor");
    double rotated = 1;
    return json_field_number(rotary, 0, 1e300, &rotated, status) &&
           (rotated == 1 || json_field_expected(rotary, status, "1: whole heads are rotated"));
}

// One object of RoPE: its base, and how it is scaled.
static bool read_rope_object(struct rope rope, double *theta, struct config *c, struct status *status)
{
    struct json_field object = rope.object, type = config_key_of(object, "rope_type");
    type = type.value ? type : config_key_of(object, "type");
    const char *name = "default", *types = "default, linear, llama3 or yarn";
    types = rope.local ? "default in layers with a window"
            : rope.family->default_rope
                ? "default: longrope, for which transformers takes yarn too, is not computed"
                : types;
    if (!json_is_object(object.value))
        return json_field_expected(object, status, "an object or null");
    for (size_t i = 0; family_layer_types[i]; i++) {
        struct json_field nested = json_field_get(object, family_layer_types[i]);
        if (nested.value)
            return json_field_fail(nested, status, "transformers reads no RoPE by type of layer here");
    }
    if (!json_field_text(type, types, &name, status) ||
        !json_field_number(config_key_of(object, "rope_theta"), 1e-300, 1e300, theta, status) ||
        !read_whole(object, status))
        return false;
    if (strcmp(name, "default") == 0 || (rope.family->axes && strcmp(name, "mrope") == 0))
        return true;
    if (!rope.local && !rope.family->default_rope) {
        if (strcmp(name, "llama3") == 0)
            return read_llama3(rope, c, status);
        if (strcmp(name, "yarn") == 0)
            return read_yarn(rope, c, status);
        if (strcmp(name, "linear") == 0)
            return required_number(config_key_of(object, "factor"), 1, &c->rope_scaling.factor, status);
    }
    return json_field_expected(type, status, "%s", types);
}

// Layers with a window and those without have RoPE of their own: rope_scaling is of the latter, rope_parameters has
// an object for each.
static bool read_rope_by_layers(struct json_field scaling, struct json_field parameters,
                                const struct family *family, struct config *c, struct status *status)
{
    struct rope full = {config_key_of(parameters, family_layer_types[0]), {0}, family, false};
    struct rope local = {config_key_of(parameters, family_layer_types[1]), {0}, family, true};
    const char *name;
    json_t *value;
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
    full.object = scaling.value ? scaling : full.object;
    return (!full.object.value || read_rope_object(full, &c->rope_theta, c, status)) &&
           (!local.object.value || read_rope_object(local, &c->local_rope_theta, c, status));
}

bool folder_rope_decode(struct json_field root, const struct family *family, struct config *c,
                        struct status *status)
{
    struct json_field scaling = config_key_of(root, "rope_scaling"),
                      parameters = config_key_of(root, "rope_parameters");
    if (json_is_object(scaling.value) && json_object_size(scaling.value) == 0)
        scaling.value = NULL;
    c->rope_theta = family->rope_theta;
    c->local_rope_theta = family->local_rope_theta;
    if (!json_field_number(config_key_of(root, "rope_theta"), 1e-300, 1e300, &c->rope_theta, status) ||
        (family->local_rope_key && !json_field_number(config_key_of(root, family->local_rope_key), 1e-300, 1e300,
                                                      &c->local_rope_theta, status)) ||
        !read_whole(root, status))
        return false;
    if (family->local_rope_theta > 0)
        return read_rope_by_layers(scaling, parameters, family, c, status);
    struct rope rope = {scaling.value ? scaling : parameters, root, family, false};
    return !rope.object.value || read_rope_object(rope, &c->rope_theta, c, status);
}
