#include "harness/folder/folder.h"
#include "harness/spec/trial_values.h"
#include "harness/tensors/folder_contents.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum key_type { COUNT, NUMBER, FLAG, CHOICE };

// Keys with one value; config_check checks their combination. Those of a kind are read into kinds[0], from which
// kinds[1] follows.
static const struct key {
    const char *name;
    enum key_type type;
    size_t offset;
    bool required;
    bool rare; // omitted from a canonical shape if it is 0
    const char *const *choices;
} keys[] = {
    {"layers", COUNT, offsetof(struct config, layers), .required = true},
    {"width", COUNT, offsetof(struct config, width), .required = true},
    {"heads", COUNT, offsetof(struct config, kinds[0].heads), .required = true},
    {"kv_heads", COUNT, offsetof(struct config, kinds[0].kv_heads), .required = false},
    {"head_dim", COUNT, offsetof(struct config, kinds[0].head_dim), .required = false},
    {"ffn", COUNT, offsetof(struct config, ffn), .required = true, .rare = true},
    {"vocab", COUNT, offsetof(struct config, vocab), .required = true},
    {"rope_theta", NUMBER, offsetof(struct config, kinds[0].rope_theta), .required = false},
    {"norm_epsilon", NUMBER, offsetof(struct config, norm_epsilon), .required = false},
    {"tied", FLAG, offsetof(struct config, tied), .required = false},
    {"qkv_bias", FLAG, offsetof(struct config, qkv_bias), .required = false},
    {"o_bias", FLAG, offsetof(struct config, o_bias), .rare = true},
    {"mlp_bias", FLAG, offsetof(struct config, mlp_bias), .rare = true},
    {"qk_norm", FLAG, offsetof(struct config, qk_norm), .required = false},
    {"whole_qk_norm", FLAG, offsetof(struct config, whole_qk_norm), .rare = true},
    {"unit_offset", FLAG, offsetof(struct config, unit_offset), .rare = true},
    {"centred", FLAG, offsetof(struct config, centred), .rare = true},
    {"parallel", FLAG, offsetof(struct config, parallel), .rare = true},
    {"layer_scalars", FLAG, offsetof(struct config, layer_scalars), .rare = true},
    {"norms", CHOICE, offsetof(struct config, norms), .rare = true, .choices = norms_names},
    {"activation", CHOICE, offsetof(struct config, activation), .rare = true, .choices = activation_names},
    {"rope", CHOICE, offsetof(struct config, kinds[0].rope), .rare = true, .choices = rope_names},
    {"rotary", COUNT, offsetof(struct config, kinds[0].rotary), .rare = true},
    {"q_rank", COUNT, offsetof(struct config, kinds[0].q_rank), .rare = true},
    {"kv_rank", COUNT, offsetof(struct config, kinds[0].kv_rank), .rare = true},
    {"value_dim", COUNT, offsetof(struct config, kinds[0].value_dim), .rare = true},
    {"query_scale", NUMBER, offsetof(struct config, kinds[0].query_scale), .rare = true},
    {"embedding_scale", NUMBER, offsetof(struct config, embedding_scale), .rare = true},
    {"residual_scale", NUMBER, offsetof(struct config, residual_scale), .rare = true},
    {"logits_scale", NUMBER, offsetof(struct config, logits_scale), .rare = true},
    {"attention_cap", NUMBER, offsetof(struct config, kinds[0].cap), .rare = true},
    {"logit_cap", NUMBER, offsetof(struct config, logit_cap), .rare = true},
    {"sinks", FLAG, offsetof(struct config, kinds[0].sinks), .rare = true},
    {"gated", FLAG, offsetof(struct config, kinds[0].gated), .rare = true},
    {"v_norm", FLAG, offsetof(struct config, kinds[0].v_norm), .rare = true},
    {"k_is_v", FLAG, offsetof(struct config, kinds[0].k_is_v), .rare = true},
    {"experts", COUNT, offsetof(struct config, experts.routing.experts), .rare = true},
    {"experts_per_token", COUNT, offsetof(struct config, experts.routing.chosen), .rare = true},
    {"expert_width", COUNT, offsetof(struct config, experts.width), .rare = true},
    {"shared_expert_width", COUNT, offsetof(struct config, experts.shared_width), .rare = true},
    {"shared_expert_gated", FLAG, offsetof(struct config, experts.shared_gated), .rare = true},
    {"router_score", CHOICE, offsetof(struct config, experts.routing.score), .rare = true, .choices = router_names},
    {"normalised_weights", FLAG, offsetof(struct config, experts.routing.normalised), .rare = true},
    {"expert_scale", NUMBER, offsetof(struct config, experts.routing.scale), .rare = true},
    {"score_sum_added", NUMBER, offsetof(struct config, experts.routing.added), .rare = true},
    {"score_sum_least", NUMBER, offsetof(struct config, experts.routing.least), .rare = true},
    {"expert_groups", COUNT, offsetof(struct config, experts.routing.groups), .rare = true},
    {"top_groups", COUNT, offsetof(struct config, experts.routing.top_groups), .rare = true},
    {"group_best", COUNT, offsetof(struct config, experts.routing.group_best), .rare = true},
    {"router_bias", FLAG, offsetof(struct config, experts.router_bias), .rare = true},
    {"correction_bias", FLAG, offsetof(struct config, experts.correction_bias), .rare = true},
    {"expert_bias", FLAG, offsetof(struct config, experts.bias), .rare = true},
    {"swiglu_alpha", NUMBER, offsetof(struct config, experts.alpha), .rare = true},
    {"swiglu_limit", NUMBER, offsetof(struct config, experts.limit), .rare = true},
};
#define KEYS         (sizeof keys / sizeof *keys)
#define SIZE_MAXIMUM ((size_t)1 << 24) // larger than any model

static size_t bytes_of(const struct key *key)
{
    static const size_t bytes[] = {
        [COUNT] = sizeof(size_t), [NUMBER] = sizeof(double), [FLAG] = sizeof(bool), [CHOICE] = sizeof(int)};
    return bytes[key->type];
}

static bool read_key(struct json_field shape, const struct key *key, struct config *config, struct status *status)
{
    struct json_field field = json_field_get(shape, key->name);
    void *value = (char *)config + key->offset;
    switch (key->type) {
    case COUNT:
        return json_field_count(field, 1, SIZE_MAXIMUM, "", value, status);
    case NUMBER:
        return json_field_number(field, 1e-300, 1e300, value, status);
    case FLAG:
        return json_field_bool(field, value, status);
    case CHOICE:
        return json_field_enum(field, key->choices, key->name, value, status);
    }
    return false;
}

static bool read_yarn(struct json_field field, struct rope_scaling *scaling, struct status *status)
{
    const struct names known = {
        7, {"type", "factor", "beta_fast", "beta_slow", "original_context", "attention_factor", "truncate"}};
    bool truncate = true;
    struct json_field context = json_field_get(field, "original_context");
    *scaling = (struct rope_scaling){.factor = scaling->factor,
                                     .low_freq_factor = 1,
                                     .high_freq_factor = 32,
                                     .attention_factor = rope_yarn_gain(scaling->factor)};
    if (!json_field_object(field, &known, "rope_scaling", status))
        return false;
    if (!context.value)
        return json_field_fail(context, status,
                               "missing; the context that the model was trained for, such as 32768");
    if (!json_field_bool(json_field_get(field, "truncate"), &truncate, status))
        return false;
    scaling->untruncated = !truncate;
    return json_field_number(json_field_get(field, "beta_fast"), 1e-6, 1e6, &scaling->high_freq_factor, status) &&
           json_field_number(json_field_get(field, "beta_slow"), 1e-6, 1e6, &scaling->low_freq_factor, status) &&
           json_field_number(json_field_get(field, "attention_factor"), 1e-6, 1e6, &scaling->attention_factor,
                             status) &&
           json_field_count(context, 1, SIZE_MAXIMUM, " of tokens", &scaling->original_context, status);
}

static bool read_factors(struct json_field field, double *factors, struct status *status)
{
    size_t count = json_array_size(field.value);
    memset(factors, 0, LONGROPE_PAIRS * sizeof *factors);
    if (count == 0 || count > LONGROPE_PAIRS)
        return json_field_expected(field, status, "a list of numbers, one per frequency, at most %d",
                                   LONGROPE_PAIRS);
    bool read = true;
    for (size_t j = 0; j < count && read; j++)
        read = json_field_number(json_field_at(field, j), 1e-6, 1e6, &factors[j], status);
    return read;
}

static bool read_longrope(struct json_field field, struct config *config, struct status *status)
{
    static const struct names known = {
        5, {"type", "short_factor", "long_factor", "original_context", "attention_factor"}};
    struct rope_scaling *scaling = &config->kinds[0].rope_scaling;
    *scaling = (struct rope_scaling){.factor = 1, .attention_factor = 1, .longrope = true};
    struct json_field context = json_field_get(field, "original_context");
    if (!json_field_object(field, &known, "rope_scaling", status))
        return false;
    if (!context.value)
        return json_field_fail(context, status,
                               "missing; the longest document that short_factor is for, such as 4096");
    return read_factors(json_field_get(field, "short_factor"), config->short_factors, status) &&
           read_factors(json_field_get(field, "long_factor"), config->long_factors, status) &&
           json_field_number(json_field_get(field, "attention_factor"), 1e-6, 1e6, &scaling->attention_factor,
                             status) &&
           json_field_count(context, 1, SIZE_MAXIMUM, " of tokens", &scaling->original_context, status);
}

static bool read_scaling(struct json_field field, struct config *config, struct status *status)
{
    struct rope_scaling *scaling = &config->kinds[0].rope_scaling;
    if (!field.value)
        return true;
    if (json_is_null(field.value)) {
        *scaling = (struct rope_scaling){0};
        return true;
    }
    const struct names known = {5, {"type", "factor", "low_freq_factor", "high_freq_factor", "original_context"}};
    const struct names types = {5, {"llama3", "linear", "yarn", "longrope", "dynamic"}};
    const char *named = json_string_value(json_object_get(field.value, "type"));
    bool yarn = named && strcmp(named, "yarn") == 0;
    if (named && strcmp(named, "longrope") == 0)
        return read_longrope(field, config, status);
    if (!yarn && !json_field_object(field, &known, "rope_scaling", status))
        return false;
    struct json_field factor = json_field_get(field, "factor");
    if (!factor.value)
        return json_field_fail(factor, status, "missing; how much longer than original_context, such as 8");
    size_t type = 0;
    *scaling = (struct rope_scaling){.low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192};
    if (!json_field_choice(json_field_get(field, "type"), &types, "type of rope_scaling", &type, status) ||
        !json_field_number(factor, 1, 1e6, &scaling->factor, status))
        return false;
    if (type == 1) {
        *scaling = (struct rope_scaling){.factor = scaling->factor};
        return json_object_size(field.value) == 2 ||
               json_field_fail(field, status, "of type \"linear\" has only a factor");
    }
    if (type == 4) {
        struct json_field context = json_field_get(field, "original_context");
        *scaling = (struct rope_scaling){.factor = scaling->factor, .dynamic = true};
        if (!context.value || json_object_size(field.value) != 3)
            return json_field_fail(field, status, "of type \"dynamic\" has a factor and an original_context alone");
        return json_field_count(context, 1, SIZE_MAXIMUM, " of tokens", &scaling->original_context, status);
    }
    if (yarn)
        return read_yarn(field, scaling, status);
    return json_field_number(json_field_get(field, "low_freq_factor"), 1e-6, 1e6, &scaling->low_freq_factor,
                             status) &&
           json_field_number(json_field_get(field, "high_freq_factor"), 1e-6, 1e6, &scaling->high_freq_factor,
                             status) &&
           json_field_count(json_field_get(field, "original_context"), 1, SIZE_MAXIMUM, " of tokens",
                            &scaling->original_context, status);
}

// Layers [0, CONFIG_KIND_LAYERS) without positions, and the kind of those without a window with its positions.
struct flat {
    bool without[CONFIG_KIND_LAYERS];
    struct layer_kind kind;
    // Chunked attention is of layers with a window; the scale of all, or of those without positions.
    bool chunked, scales_without;
    struct position_scale scale;
};

static struct flat flat_of(const struct config *config)
{
    struct flat flat = {.kind = *config_full_kind(config), .scales_without = true};
    bool all = flat.kind.rope == ROPE_NONE;
    for (size_t l = 0; l < config->layers; l++) {
        const struct layer_kind *kind = config_kind(config, l);
        enum rope_pairs rope = kind->rope;
        flat.chunked |= kind->chunked;
        flat.scales_without &= rope == ROPE_NONE || kind->position_scale.length == 0;
        flat.scale = kind->position_scale.length > 0 ? kind->position_scale : flat.scale;
        if (l < CONFIG_KIND_LAYERS)
            flat.without[l] = rope == ROPE_NONE;
        flat.kind.rope = flat.kind.rope == ROPE_NONE ? rope : flat.kind.rope;
        all &= rope == ROPE_NONE;
    }
    if (all)
        memset(flat.without, 0, sizeof flat.without);
    flat.kind.chunked = false;
    flat.kind.position_scale = (struct position_scale){0};
    return flat;
}

static bool read_flat(struct json_field shape, struct flat *flat, struct status *status)
{
    static const struct names known = {4, {"beta", "length", "offset", "no_rope"}};
    struct json_field scale = json_field_get(shape, "position_scale");
    if (!json_field_bool(json_field_get(shape, "chunked"), &flat->chunked, status))
        return false;
    if (!scale.value)
        return true;
    flat->scale = (struct position_scale){0};
    flat->scales_without = false;
    if (!json_field_given(scale))
        return true;
    struct json_field beta = json_field_get(scale, "beta"), length = json_field_get(scale, "length");
    if (!json_field_object(scale, &known, "position_scale", status))
        return false;
    if (!beta.value || !length.value)
        return json_field_fail(scale, status, "needs a beta, such as 0.1, and a length in tokens, such as 8192");
    return json_field_number(beta, 1e-6, 1e6, &flat->scale.beta, status) &&
           json_field_count(length, 1, JSON_INTEGER_MAX, " of tokens", &flat->scale.length, status) &&
           json_field_count(json_field_get(scale, "offset"), 0, JSON_INTEGER_MAX, " of tokens", &flat->scale.offset,
                            status) &&
           json_field_bool(json_field_get(scale, "no_rope"), &flat->scales_without, status);
}

// Gives attention's kinds chunks and scales, by their windows and positions.
static void apply_flat(struct config *config, const struct flat *flat)
{
    for (size_t k = 0; k < CONFIG_DELTA; k++) {
        struct layer_kind *kind = &config->kinds[k];
        bool without = kind->rope == ROPE_NONE;
        if (!config_has_kind(config, k))
            continue;
        kind->chunked = flat->chunked && kind->window > 0;
        if (without || !flat->scales_without)
            kind->position_scale = flat->scale;
    }
}

static void add_flat(json_t *shape, const struct flat *flat)
{
    const struct position_scale *scale = &flat->scale;
    if (flat->chunked)
        json_object_set_new(shape, "chunked", json_true());
    if (scale->length > 0)
        json_object_set_new(shape, "position_scale",
                            json_pack("{s:f, s:I, s:I, s:b}", "beta", scale->beta, "length",
                                      (json_int_t)scale->length, "offset", (json_int_t)scale->offset, "no_rope",
                                      flat->scales_without));
}

// Windows of a shape: their length, 0: none, and what layers with one have of their own. The layers without one are
// of kind 1.
struct windows {
    size_t length;
    struct local_layers local;
};

static struct windows windows_of(const struct config *config)
{
    struct layer_kind windowed = {0}, full = flat_of(config).kind;
    for (size_t l = 0; l < config->layers && windowed.window == 0; l++)
        windowed = *config_kind(config, l);
    windowed.rope = full.rope;
    struct local_layers local = {
        .rope_theta = rope_is_same(&full, &windowed) ? 0 : windowed.rope_theta,
        .kv_heads = windowed.kv_heads == full.kv_heads ? 0 : windowed.kv_heads,
        .head_dim = windowed.head_dim == full.head_dim ? 0 : windowed.head_dim,
    };
    if (windowed.window == 0 || full.window > 0)
        local = (struct local_layers){0};
    return (struct windows){windowed.window, local};
}

static bool read_no_rope_layers(struct json_field field, size_t layers, bool without[CONFIG_KIND_LAYERS],
                                struct status *status)
{
    if (!field.value)
        return true;
    if (!json_is_array(field.value))
        return json_field_expected(field, status, "a list of the layers without positions");
    memset(without, 0, CONFIG_KIND_LAYERS * sizeof *without);
    for (size_t i = 0; i < json_array_size(field.value); i++) {
        size_t layer = 0, last = layers < CONFIG_KIND_LAYERS ? layers : CONFIG_KIND_LAYERS;
        if (!json_field_count(json_field_at(field, i), 0, last - 1, "", &layer, status))
            return false;
        without[layer] = true;
    }
    return true;
}

// Keys of struct local_layers.
static const char *const local_keys[] = {"local_rope_theta", "local_kv_heads", "local_head_dim"};
#define LOCAL_KEYS (sizeof local_keys / sizeof *local_keys)

// null: no window.
static bool read_windows(struct json_field shape, struct config *config, struct windows *windows,
                         struct status *status)
{
    struct json_field window = json_field_get(shape, "sliding_window"), full = json_field_get(shape, "full_layers");
    if (window.value) {
        windows->length = 0;
        memset(config->kind_of, 0, sizeof config->kind_of);
    }
    struct local_layers *local = &windows->local;
    if (!json_field_number(json_field_get(shape, local_keys[0]), 1e-300, 1e300, &local->rope_theta, status) ||
        !json_field_count(json_field_get(shape, local_keys[1]), 1, SIZE_MAXIMUM, "", &local->kv_heads, status) ||
        !json_field_count(json_field_get(shape, local_keys[2]), 1, SIZE_MAXIMUM, "", &local->head_dim, status) ||
        (json_field_given(window) &&
         !json_field_count(window, 1, JSON_INTEGER_MAX, " of tokens", &windows->length, status)))
        return false;
    for (size_t i = 0; i < LOCAL_KEYS && !windows->length; i++)
        if (json_field_get(shape, local_keys[i]).value)
            return json_field_fail(json_field_get(shape, local_keys[i]), status,
                                   "is of layers with a window: give a \"sliding_window\"");
    if (!full.value)
        return true;
    if (!json_is_array(full.value) || !windows->length)
        return json_field_expected(full, status, "with a \"sliding_window\", a list of the layers that have none");
    memset(config->kind_of, 0, sizeof config->kind_of);
    for (size_t i = 0; i < json_array_size(full.value); i++) {
        struct json_field item = json_field_at(full, i);
        size_t layer = 0, last = config->layers < CONFIG_KIND_LAYERS ? config->layers : CONFIG_KIND_LAYERS;
        if (!json_field_count(item, 0, last - 1, "", &layer, status))
            return false;
        config->kind_of[layer] = 1;
    }
    return true;
}

// Keys of layers of Gated DeltaNet.
static const struct {
    const char *name;
    size_t offset;
} delta_sizes[] = {{"heads", offsetof(struct layer_kind, heads)},
                   {"key_heads", offsetof(struct layer_kind, kv_heads)},
                   {"key_dim", offsetof(struct layer_kind, head_dim)},
                   {"value_dim", offsetof(struct layer_kind, value_dim)}};
#define DELTA_SIZES (sizeof delta_sizes / sizeof *delta_sizes)

static bool read_delta_layers(struct json_field layers, struct config *config, struct status *status)
{
    size_t last = config->layers < CONFIG_KIND_LAYERS ? config->layers : CONFIG_KIND_LAYERS;
    if (!json_is_array(layers.value))
        return json_field_expected(layers, status, "a list of the layers of Gated DeltaNet");
    for (size_t i = 0; i < json_array_size(layers.value); i++) {
        size_t layer = 0;
        if (!json_field_count(json_field_at(layers, i), 0, last - 1, "", &layer, status))
            return false;
        config->kind_of[layer] = CONFIG_DELTA;
    }
    return true;
}

static bool is_delta(const struct config *config, size_t layer)
{
    size_t mixer = config_kind(config, layer)->mixer;
    return mixer == MIXER_DELTA || mixer == MIXER_DELTA_SPLIT;
}

// null: none. before: the preset, whose layers these are if there is no such key.
static bool read_delta(struct json_field shape, const struct config *before, struct config *config,
                       struct status *status)
{
    struct names known = {5, {"layers", "beta_scale", "norm_epsilon", "split", "norms_before"}};
    bool split = false;
    struct json_field delta = json_field_get(shape, "delta");
    struct layer_kind *kind = &config->kinds[CONFIG_DELTA];
    for (size_t l = 0; l < CONFIG_KIND_LAYERS && !delta.value; l++)
        if (is_delta(before, l))
            config->kind_of[l] = CONFIG_DELTA;
    *kind = before->kinds[CONFIG_DELTA];
    if (!json_field_given(delta))
        return true;
    *kind = (struct layer_kind){.gate_epsilon = config->norm_epsilon};
    for (size_t i = 0; i < DELTA_SIZES; i++)
        names_add(&known, delta_sizes[i].name);
    if (!json_field_object(delta, &known, "delta", status))
        return false;
    for (size_t i = 0; i < DELTA_SIZES; i++) {
        struct json_field size = json_field_get(delta, delta_sizes[i].name);
        if (!size.value)
            return json_field_fail(size, status, "missing; a whole number above 0");
        if (!json_field_count(size, 1, SIZE_MAXIMUM, "", (void *)((char *)kind + delta_sizes[i].offset), status))
            return false;
    }
    if (!json_field_bool(json_field_get(delta, "split"), &split, status) ||
        !json_field_bool(json_field_get(delta, "norms_before"), &kind->norms_before, status))
        return false;
    kind->mixer = split ? MIXER_DELTA_SPLIT : MIXER_DELTA;
    return json_field_number(json_field_get(delta, "beta_scale"), 1e-6, 1e6, &kind->beta_scale, status) &&
           json_field_number(json_field_get(delta, "norm_epsilon"), 1e-300, 1, &kind->gate_epsilon, status) &&
           read_delta_layers(json_field_get(delta, "layers"), config, status);
}

static json_t *delta_json(const struct config *config)
{
    const struct layer_kind *kind = &config->kinds[CONFIG_DELTA];
    json_t *delta = json_object(), *layers = json_array();
    for (size_t i = 0; i < DELTA_SIZES; i++)
        json_object_set_new(
            delta, delta_sizes[i].name,
            json_integer((json_int_t) * (const size_t *)((const char *)kind + delta_sizes[i].offset)));
    if (kind->beta_scale > 0)
        json_object_set_new(delta, "beta_scale", json_real(kind->beta_scale));
    json_object_set_new(delta, "norm_epsilon", json_real(kind->gate_epsilon));
    if (kind->mixer == MIXER_DELTA_SPLIT)
        json_object_set_new(delta, "split", json_true());
    if (kind->norms_before)
        json_object_set_new(delta, "norms_before", json_true());
    for (size_t l = 0; l < config->layers; l++)
        if (is_delta(config, l))
            json_array_append_new(layers, json_integer((json_int_t)l));
    json_object_set_new(delta, "layers", layers);
    return delta;
}

// Whether no key is given that only layers with experts read.
static bool without_experts(struct json_field shape, struct status *status)
{
    const size_t first = offsetof(struct config, experts), end = first + sizeof(struct experts);
    for (size_t i = 0; i <= KEYS; i++) {
        struct json_field field = json_field_get(shape, i < KEYS ? keys[i].name : "dense_layers");
        bool reads = i == KEYS || (keys[i].offset >= first && keys[i].offset < end);
        if (reads && field.value)
            return json_field_fail(field, status, "is of layers with experts: give their number, \"experts\"");
    }
    return true;
}

// null: every layer has experts. before: the preset, whose layers without experts these are if there is no such
// key.
static bool read_experts(struct json_field shape, const struct config *before, struct config *config,
                         struct status *status)
{
    struct experts *experts = &config->experts;
    struct json_field list = json_field_get(shape, "dense_layers");
    bool dense[CONFIG_KIND_LAYERS] = {false};
    size_t last = config->layers < CONFIG_KIND_LAYERS ? config->layers : CONFIG_KIND_LAYERS;
    if (experts->routing.experts == 0)
        return without_experts(shape, status);
    if (experts->routing.scale == 0)
        experts->routing.scale = 1;
    for (size_t l = 0; l < last && !list.value; l++)
        dense[l] = before->experts.routing.experts > 0 && config_kind(before, l)->mlp == MLP_DENSE;
    if (json_field_given(list) && !json_is_array(list.value))
        return json_field_expected(list, status, "a list of the layers without experts");
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        size_t layer = 0;
        if (!json_field_count(json_field_at(list, i), 0, last - 1, "", &layer, status))
            return false;
        dense[layer] = true;
    }
    for (size_t k = 0; k < CONFIG_KINDS; k++)
        config->kinds[k].mlp = MLP_EXPERTS;
    return config_set_mlp(config, dense, MLP_DENSE) ||
           json_field_fail(list, status, "makes more than %d kinds of layers", CONFIG_DELTA);
}

static void preset_names(struct names *names)
{
    for (const struct config *preset = config_presets; preset->name[0]; preset++)
        names_add(names, preset->name);
}

static bool read_preset(struct json_field field, struct config *config, struct status *status)
{
    struct names presets = {0};
    preset_names(&presets);
    size_t index = 0;
    const char *name = json_string_value(field.value);
    const struct config *preset = name ? config_preset(name) : NULL;
    if (preset)
        *config = *preset;
    return preset || json_field_choice(field, &presets, "preset", &index, status);
}

// The default name of a shape: its source.
static bool read_name(struct json_field shape, struct config *config, bool preset, struct status *status)
{
    struct json_field field = json_field_get(shape, "name");
    if (!field.value) {
        char base[sizeof config->name];
        memcpy(base, config->name, sizeof base);
        snprintf(config->name, sizeof config->name, "%.48s%s", preset ? base : "", preset ? "-custom" : "custom");
        return true;
    }
    const char *name = "";
    if (!json_field_text(field, "a label for the model", &name, status))
        return false;
    if (strlen(name) >= sizeof config->name)
        return json_field_expected(field, status, "a label of at most %zu bytes", sizeof config->name - 1);
    snprintf(config->name, sizeof config->name, "%s", name);
    return true;
}

static bool read_shape(struct json_field field, struct config *config, struct status *status)
{
    struct names known = {6, {"preset", "name", "rope_scaling", "sliding_window", "full_layers", "delta"}};
    for (size_t i = 0; i < KEYS; i++)
        names_add(&known, keys[i].name);
    for (size_t i = 0; i < LOCAL_KEYS; i++)
        names_add(&known, local_keys[i]);
    names_add(&known, "no_rope_layers");
    names_add(&known, "dense_layers");
    names_add(&known, "chunked");
    names_add(&known, "position_scale");
    if (!json_field_object(field, &known, "model", status))
        return false;
    *config = (struct config){.kinds = {{.rope_theta = 10000}}, .norm_epsilon = 1e-5};
    struct json_field preset = json_field_get(field, "preset");
    if (!read_preset(preset, config, status) || !read_name(field, config, preset.value, status))
        return false;
    struct layer_kind *kind = &config->kinds[0];
    const struct config before = *config;
    struct windows windows = windows_of(config);
    struct flat flat = flat_of(config);
    for (size_t l = 0; l < CONFIG_KIND_LAYERS; l++)
        config->kind_of[l] = windows.length > 0 && l < config->layers && config_kind(config, l)->window == 0;
    memset(config->kinds, 0, sizeof config->kinds);
    *kind = flat.kind;
    kind->window = 0;
    for (size_t i = 0; i < KEYS; i++) {
        bool spared = keys[i].offset == offsetof(struct config, ffn) && json_field_get(field, "experts").value;
        if (!preset.value && keys[i].required && !spared && !json_field_get(field, keys[i].name).value)
            return json_field_fail(field, status, "\"%s\" is missing; give it, or a \"preset\" to start from",
                                   keys[i].name);
        if (!read_key(field, &keys[i], config, status))
            return false;
    }
    bool latent = kind->kv_rank > 0;
    kind->mixer = latent ? MIXER_LATENT : kind->mixer;
    if ((!preset.value || latent) && !json_field_get(field, "kv_heads").value)
        kind->kv_heads = kind->heads;
    if (!preset.value && !json_field_get(field, "head_dim").value) {
        if (config->width % kind->heads)
            return json_field_fail(field, status, "width %zu is no multiple of heads %zu; give head_dim",
                                   config->width, kind->heads);
        kind->head_dim = config->width / kind->heads;
    }
    if (!read_scaling(json_field_get(field, "rope_scaling"), config, status) ||
        !read_windows(field, config, &windows, status))
        return false;
    if (windows.length > 0)
        config_add_window(config, windows.length, windows.local);
    struct json_field no_rope = json_field_get(field, "no_rope_layers");
    if (!read_no_rope_layers(no_rope, config->layers, flat.without, status) || !read_flat(field, &flat, status))
        return false;
    if (!config_remove_positions(config, flat.without))
        return json_field_fail(no_rope, status, "makes more than %d kinds of layers", CONFIG_DELTA);
    apply_flat(config, &flat);
    return read_delta(field, &before, config, status) && read_experts(field, &before, config, status);
}

static json_t *shape_json(const struct config *given)
{
    json_t *shape = json_object();
    struct windows windows = windows_of(given);
    struct flat of = flat_of(given);
    struct config flat = *given, *config = &flat;
    flat.kinds[0] = of.kind;
    json_object_set_new(shape, "name", json_string(config->name));
    for (size_t i = 0; i < KEYS; i++) {
        static const struct config zero;
        const void *value = (const char *)config + keys[i].offset;
        if (keys[i].rare && !memcmp(value, (const char *)&zero + keys[i].offset, bytes_of(&keys[i])))
            continue;
        json_t *json = keys[i].type == COUNT    ? json_integer((json_int_t) * (const size_t *)value)
                       : keys[i].type == NUMBER ? json_real(*(const double *)value)
                       : keys[i].type == FLAG   ? json_boolean(*(const bool *)value)
                                                : json_string(keys[i].choices[*(const int *)value]);
        json_object_set_new(shape, keys[i].name, json);
    }
    json_object_set_new(shape, "rope_scaling",
                        folder_rope_json(config, &config->kinds[0].rope_scaling, "type", "original_context"));
    if (windows.local.rope_theta > 0)
        json_object_set_new(shape, local_keys[0], json_real(windows.local.rope_theta));
    if (windows.local.kv_heads > 0)
        json_object_set_new(shape, local_keys[1], json_integer((json_int_t)windows.local.kv_heads));
    if (windows.local.head_dim > 0)
        json_object_set_new(shape, local_keys[2], json_integer((json_int_t)windows.local.head_dim));
    add_flat(shape, &of);
    json_t *without = json_array();
    for (size_t l = 0; l < config->layers && l < CONFIG_KIND_LAYERS; l++)
        if (of.without[l])
            json_array_append_new(without, json_integer((json_int_t)l));
    if (json_array_size(without) > 0)
        json_object_set(shape, "no_rope_layers", without);
    json_decref(without);
    if (windows.length > 0) {
        json_t *full = json_array();
        for (size_t l = 0; l < config->layers; l++)
            if (config_kind(given, l)->window == 0 && !is_delta(given, l))
                json_array_append_new(full, json_integer((json_int_t)l));
        json_object_set_new(shape, "sliding_window", json_integer((json_int_t)windows.length));
        json_object_set_new(shape, "full_layers", full);
    }
    if (config_has_kind(given, CONFIG_DELTA))
        json_object_set_new(shape, "delta", delta_json(given));
    json_t *dense = json_array();
    for (size_t l = 0; l < given->layers; l++)
        if (given->experts.routing.experts > 0 && config_kind(given, l)->mlp == MLP_DENSE)
            json_array_append_new(dense, json_integer((json_int_t)l));
    if (json_array_size(dense) > 0)
        json_object_set(shape, "dense_layers", dense);
    json_decref(dense);
    return shape;
}

// Tells whether the shape is the preset's; a label makes it another model.
static bool is_preset(const struct config *config, const struct config *preset, bool labelled)
{
    if (config->layers != preset->layers || config->width != preset->width || config->vocab != preset->vocab)
        return false;
    json_t *shape = shape_json(config), *of_preset = shape_json(preset);
    if (!labelled) {
        json_object_del(shape, "name");
        json_object_del(of_preset, "name");
    }
    bool same = json_equal(shape, of_preset);
    json_decref(shape);
    json_decref(of_preset);
    return same;
}

static bool decode_shape(struct json_field field, struct config *config, json_t **canonical, struct status *status)
{
    if (!read_shape(field, config, status))
        return false;
    struct status why = {0};
    if (!config_check(config, &why))
        return json_field_fail(field, status, "%s", why.message);
    bool labelled = json_field_get(field, "name").value;
    for (const struct config *preset = config_presets; preset->name[0]; preset++) {
        if (is_preset(config, preset, labelled)) {
            *config = *preset;
            *canonical = json_string(preset->name);
            return true;
        }
    }
    config->max_context = 0; // the preset's limit applied to the preset's shape
    *canonical = shape_json(config);
    return true;
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool unknown_model(struct json_field field, struct status *status)
{
    struct names presets = {0}, of_hub = {0};
    preset_names(&presets);
    for (const struct config_alias *alias = config_aliases; alias->hub_name; alias++)
        names_add(&of_hub, alias->hub_name);
    const char *name = json_string_value(field.value), *nearest = names_nearest(&of_hub, name);
    char hint[640], found[100], contents[400];
    names_hint(&presets, nearest ? NULL : name, "presets", hint, sizeof hint);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean \"%s\"?", nearest);
    json_source_show(field.value, found, sizeof found);
    folder_contents(name, false, contents, sizeof contents);
    bool there = access(name, F_OK) == 0;
    return json_field_fail(field, status, "%s is neither a preset nor a folder with a config.json%s%s%s", found,
                           contents, there ? "" : "; ", there ? "" : hint);
}

static bool decode_name(struct json_field field, struct config *config, char **folder, json_t **canonical,
                        struct status *status)
{
    const char *name = json_string_value(field.value);
    const struct config *preset = config_preset(name);
    bool folder_too = strchr(name, '/') && is_folder(name); // a hub's name may also be a folder
    if (preset && !folder_too) {
        *config = *preset;
        *canonical = json_string(preset->name);
        return true;
    }
    if (!is_folder(name))
        return unknown_model(field, status);
    char *path = folder_path(name); // different spellings of a path give one id
    struct status why = {0};
    if (!folder_read_config(path, config, &why)) {
        free(path);
        return json_field_fail(field, status, "%s", why.message);
    }
    *folder = path;
    *canonical = json_string(path);
    return true;
}

bool config_decode(struct json_field field, struct config *config, char **folder, json_t **canonical,
                   struct status *status)
{
    *folder = NULL;
    if (!field.value)
        return json_field_fail(field, status, "missing; expected a preset, a shape or a folder");
    if (json_is_string(field.value))
        return decode_name(field, config, folder, canonical, status);
    if (json_is_object(field.value))
        return decode_shape(field, config, canonical, status);
    return json_field_expected(field, status, "a preset, a shape {\"layers\": ...} or a folder");
}
