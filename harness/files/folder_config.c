#define _GNU_SOURCE // asprintf
#include "harness/files/adapter.h"
#include "harness/files/folder.h"
#include "harness/files/json_field.h"
#include "harness/files/output_file.h"
#include <string.h>
#include <unistd.h>

#define SIZE_MOST ((size_t)1 << 24)

// How a file tells of a sliding window: not at all; by its length alone, every layer's; with use_sliding_window, of
// the layers from max_window_layers on or those that layer_types names.
enum sliding { SLIDING_NONE, SLIDING_ALL, SLIDING_SOME };

// What a model_type implies, and what its configuration class in transformers assumes for keys that are left out.
struct family {
    const char *model_type, *architecture;
    bool qkv_bias, qk_norm;
    size_t kv_heads; // 0: as many as heads
    size_t head_dim; // 0: hidden_size / num_attention_heads
    enum sliding sliding;
    size_t max_context;
};
static const struct family families[] = {
    {"llama", "LlamaForCausalLM", .max_context = 2048},
    {"mistral", "MistralForCausalLM", .kv_heads = 8, .sliding = SLIDING_ALL, .max_context = 131072},
    {"qwen2", "Qwen2ForCausalLM", .qkv_bias = true, .kv_heads = 32, .sliding = SLIDING_SOME, .max_context = 32768},
    {"qwen3", "Qwen3ForCausalLM", .qk_norm = true, .kv_heads = 32, .head_dim = 128, .sliding = SLIDING_SOME,
     .max_context = 32768},
};
#define FAMILIES          (sizeof families / sizeof *families)
#define SLIDING_WINDOW    4096 // where the key is left out
#define FIRST_WITH_WINDOW 28

// The key's value; null counts as left out, as it does in transformers.
static struct json_field key_of(struct json_field object, const char *key)
{
    struct json_field field = json_field_get(object, key);
    field.value = json_field_given(field) ? field.value : NULL;
    return field;
}

static bool required(struct json_field field, size_t *value, struct status *status)
{
    if (!field.value) {
        return json_field_expected(field, status, "a whole number above 0");
    }
    return json_field_count(field, 1, SIZE_MOST, "", value, status);
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

static bool read_family(struct json_field root, const struct family **family, struct status *status)
{
    struct names names = {0};
    for (size_t i = 0; i < FAMILIES; i++) {
        names_add(&names, families[i].model_type);
    }
    struct json_field field = key_of(root, "model_type");
    size_t index = FAMILIES;
    if (!field.value) {
        return json_field_expected(field, status, "llama, mistral, qwen2 or qwen3");
    }
    if (!json_field_choice(field, &names, "model type", &index, status)) {
        return false;
    }
    *family = &families[index];
    return true;
}

static bool read_sizes(struct json_field root, const struct family *family, struct config *c, struct status *status)
{
    if (!required(key_of(root, "hidden_size"), &c->width, status) ||
        !required(key_of(root, "num_hidden_layers"), &c->layers, status) ||
        !required(key_of(root, "num_attention_heads"), &c->heads, status) ||
        !required(key_of(root, "intermediate_size"), &c->ffn, status) ||
        !required(key_of(root, "vocab_size"), &c->vocab, status)) {
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
    c->norm_epsilon = 1e-6;
    return json_field_count(key_of(root, "num_key_value_heads"), 1, SIZE_MOST, "", &c->kv_heads, status) &&
           json_field_count(head_dim, 1, SIZE_MOST, "", &c->head_dim, status) &&
           json_field_count(key_of(root, "max_position_embeddings"), 1, JSON_INTEGER_MAX, "", &c->max_context,
                            status) &&
           json_field_number(key_of(root, "rms_norm_eps"), 1e-300, 1, &c->norm_epsilon, status) &&
           json_field_bool(key_of(root, "tie_word_embeddings"), &c->tied, status);
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

// RoPE is told in two ways: rope_theta beside rope_scaling, or, from transformers 5 on, all within rope_parameters.
static bool read_rope(struct json_field root, struct config *c, struct status *status)
{
    struct json_field scaling = key_of(root, "rope_scaling");
    scaling = scaling.value ? scaling : key_of(root, "rope_parameters");
    c->rope_theta = 10000;
    if (!json_field_number(key_of(root, "rope_theta"), 1e-300, 1e300, &c->rope_theta, status)) {
        return false;
    }
    if (!scaling.value) {
        return true;
    }
    if (!json_is_object(scaling.value)) {
        return json_field_expected(scaling, status, "an object or null");
    }
    struct json_field type = key_of(scaling, "rope_type");
    type = type.value ? type : key_of(scaling, "type");
    const char *name = "default";
    double rotated = 1;
    if (!json_field_text(type, "default or llama3", &name, status) ||
        !json_field_number(key_of(scaling, "rope_theta"), 1e-300, 1e300, &c->rope_theta, status) ||
        !json_field_number(key_of(scaling, "partial_rotary_factor"), 0, 1e300, &rotated, status)) {
        return false;
    }
    if (rotated != 1) {
        return json_field_expected(key_of(scaling, "partial_rotary_factor"), status, "1: whole heads are rotated");
    }
    if (strcmp(name, "llama3") == 0) {
        return read_llama3(scaling, c, status);
    }
    return strcmp(name, "default") == 0 || json_field_expected(type, status, "default or llama3");
}

static const char *const layer_types[] = {"full_attention", "sliding_attention", NULL};

static bool set_full(struct config *c, struct json_field field, size_t layer, struct status *status)
{
    return config_set_full(c, layer) ||
           json_field_fail(field, status, "layers without a sliding window must be among the first %d",
                           CONFIG_FULL_LAYERS);
}

// The layers without a window, as `types` lists them.
static bool read_layer_types(struct json_field types, bool windows, struct config *c, struct status *status)
{
    struct names names = {0};
    names_add_all(&names, layer_types);
    if (!json_is_array(types.value) || json_array_size(types.value) != c->layers) {
        return json_field_expected(types, status, "a list of %zu types, one per layer", c->layers);
    }
    for (size_t l = 0; l < c->layers; l++) {
        struct json_field type = json_field_at(types, l);
        size_t sliding = 0;
        if (!json_field_choice(type, &names, "type of layer", &sliding, status)) {
            return false;
        }
        if (sliding && !windows) {
            return json_field_expected(type, status, "\"full_attention\": use_sliding_window is not true");
        }
        if (!sliding && windows && !set_full(c, type, l, status)) {
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
    bool windows = family->sliding == SLIDING_ALL;
    size_t length = SLIDING_WINDOW, first = FIRST_WITH_WINDOW;
    if (family->sliding == SLIDING_NONE &&
        !refuse_true(key_of(root, "use_sliding_window"), "transformers' Llama has no sliding window", status)) {
        return false;
    }
    if (family->sliding == SLIDING_SOME && !json_field_bool(key_of(root, "use_sliding_window"), &windows, status)) {
        return false;
    }
    windows = windows && !json_is_null(window.value);
    if (windows && (!json_field_count(window, 1, JSON_INTEGER_MAX, " of tokens", &length, status) ||
                    !json_field_count(first_field, 0, SIZE_MOST, "", &first, status))) {
        return false;
    }
    c->sliding_window = windows ? length : 0;
    if (family->sliding == SLIDING_ALL) {
        return true; // in Mistral the other keys mean nothing
    }
    if (types.value) {
        return read_layer_types(types, windows, c, status);
    }
    for (size_t l = 0; windows && l < c->layers && l < first; l++) {
        if (!set_full(c, first_field, l, status)) {
            return false;
        }
    }
    return true;
}

static bool refuse_unknown(struct json_field root, const struct family *family, struct status *status)
{
    struct json_field act = key_of(root, "hidden_act"), quantized = key_of(root, "quantization_config");
    struct json_field rotary = key_of(root, "partial_rotary_factor");
    const char *name = "silu";
    double rotated = 1;
    if (!json_field_text(act, "silu", &name, status) || !json_field_number(rotary, 0, 1e300, &rotated, status)) {
        return false;
    }
    if (strcmp(name, "silu") != 0) {
        return json_field_expected(act, status, "silu");
    }
    if (rotated != 1) {
        return json_field_expected(rotary, status, "1: whole heads are rotated");
    }
    if (quantized.value) {
        return json_field_fail(quantized, status, "quantized weights are not supported");
    }
    // In Qwen2 the biases of q, k and v are part of the model, and this key means nothing.
    return (family->qkv_bias || refuse_true(key_of(root, "attention_bias"),
                                            "a bias on o_proj, which this implies, is not supported", status)) &&
           refuse_true(key_of(root, "mlp_bias"), "biases in the MLP are not supported", status);
}

static bool decode(struct json_field root, struct config *config, struct status *status)
{
    const struct family *family = NULL;
    if (!json_is_object(root.value)) {
        return json_field_expected(root, status, "an object");
    }
    if (!read_family(root, &family, status)) {
        return false;
    }
    config->qkv_bias = family->qkv_bias;
    config->qk_norm = family->qk_norm;
    return read_sizes(root, family, config, status) && read_rope(root, config, status) &&
           read_sliding(root, family, config, status) && refuse_unknown(root, family, status);
}

// The folder's own name: the last part of its path.
static void name_config(struct config *config, const char *folder)
{
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (start > 0 && folder[start - 1] != '/') {
        start--;
    }
    size_t bytes = end - start < sizeof config->name - 1 ? end - start : sizeof config->name - 1;
    memcpy(config->name, folder + start, bytes);
    config->name[bytes] = '\0';
}

bool folder_read_config(const char *folder, struct config *config, struct status *status)
{
    *config = (struct config){0};
    name_config(config, folder);
    char *path = NULL;
    CHECK(asprintf(&path, "%s/config.json", folder) >= 0);
    struct json_source source;
    if (access(path, F_OK) != 0 && adapter_is_in(folder)) {
        free(path);
        return status_set(
            status, STATUS_BAD_INPUT,
            "%s: is a PEFT adapter and no model: give the model that it was trained on, and the folder as "
            "\"lora\" (--lora %s)",
            folder, folder);
    }
    bool ok = json_source_open(&source, path, status) && decode(json_field_root(&source), config, status);
    struct status reason = {0};
    if (ok && !config_check(config, &reason)) {
        ok = status_set(status, reason.code, "%s: %s", path, reason.message);
    }
    json_source_close(&source);
    free(path);
    return ok;
}

// The keys of a sliding window.
static void add_sliding(json_t *json, const struct config *c, const struct family *family)
{
    json_t *types = json_array();
    for (size_t l = 0; l < c->layers; l++) {
        json_array_append_new(types, json_string(layer_types[config_window(c, l) > 0]));
    }
    json_object_set_new(json, "sliding_window", json_integer((json_int_t)c->sliding_window));
    if (family->sliding == SLIDING_SOME) {
        json_object_set_new(json, "use_sliding_window", json_true());
        json_object_set(json, "layer_types", types);
    }
    json_decref(types);
}

static json_t *encode(const struct config *c, const struct family *family, enum dtype dtype)
{
    const char *dtypes[DTYPE_COUNT] = {[DTYPE_F64] = "float64", [DTYPE_F32] = "float32", [DTYPE_BF16] = "bfloat16"};
    json_t *scaling = json_null();
    if (c->rope_scaling.factor != 0) {
        scaling = json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", c->rope_scaling.factor,
                            "low_freq_factor", c->rope_scaling.low_freq_factor, "high_freq_factor",
                            c->rope_scaling.high_freq_factor, "original_max_position_embeddings",
                            (json_int_t)c->rope_scaling.original_context);
    }
    json_t *json = json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:b, s:b, s:s, s:s}", "architectures",
        family->architecture, "model_type", family->model_type, "hidden_size", (json_int_t)c->width,
        "num_hidden_layers", (json_int_t)c->layers, "num_attention_heads", (json_int_t)c->heads,
        "num_key_value_heads", (json_int_t)c->kv_heads, "head_dim", (json_int_t)c->head_dim, "intermediate_size",
        (json_int_t)c->ffn, "vocab_size", (json_int_t)c->vocab, "max_position_embeddings",
        (json_int_t)(c->max_context ? c->max_context : family->max_context), "rms_norm_eps", c->norm_epsilon,
        "rope_theta", c->rope_theta, "rope_scaling", scaling, "tie_word_embeddings", c->tied, "use_cache", false,
        "hidden_act", "silu", "torch_dtype", dtypes[dtype]);
    CHECK(json);
    if (c->sliding_window) {
        add_sliding(json, c, family);
    }
    return json;
}

// Whether a model of the family can have its biases, norms and windows.
static bool is_of(const struct family *family, const struct config *c)
{
    bool some_full = false;
    for (size_t l = 0; c->sliding_window && l < c->layers; l++) {
        some_full |= config_window(c, l) == 0;
    }
    bool windows =
        !c->sliding_window || family->sliding == SLIDING_SOME || (family->sliding == SLIDING_ALL && !some_full);
    return windows && family->qkv_bias == c->qkv_bias && family->qk_norm == c->qk_norm;
}

bool folder_write_config(const char *folder, const struct config *config, enum dtype dtype, struct status *status)
{
    const struct family *family = NULL;
    for (size_t i = 0; i < FAMILIES && !family; i++) {
        if (is_of(&families[i], config)) {
            family = &families[i];
        }
    }
    if (!family) {
        return status_set(status, STATUS_UNSUPPORTED,
                          "no model type of transformers has both qkv_bias (Qwen2) and qk_norm (Qwen3), or neither "
                          "and a sliding window in some layers alone");
    }
    char *path = NULL;
    CHECK(asprintf(&path, "%s/config.json", folder) >= 0);
    json_t *json = encode(config, family, dtype);
    char *text = json_dumps(json, JSON_INDENT(2));
    CHECK(text);
    bool ok = output_file_write(path, text, strlen(text), status);
    free(text);
    json_decref(json);
    free(path);
    return ok;
}
