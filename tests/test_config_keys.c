// Tests of harness/config_keys: all keys that transformers reads, as tools/config_keys.py recorded them, are
// known, and each acts as the table says: it changes the model, is refused, or changes nothing.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/folder/folder.h"
#include "harness/folder/folder_family.h"
#include "tests/scratch.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define WINDOW "\"use_sliding_window\": true, \"sliding_window\": 7, \"max_window_layers\": 1"
#define YARN   "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 512"
#define LONGROPE                                                                                                   \
    "{\"rope_type\": \"longrope\", \"short_factor\": [1, 1, 1, 1, 1, 1, 1, 1], \"long_factor\": [2, 2, 2, 2, 2, "  \
    "2, 2, 2]"
#define LLAMA3                                                                                                     \
    "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4, "             \
    "\"original_max_position_embeddings\": 512"

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *value = json_loads(text, JSON_DECODE_ANY, &error);
    if (!value)
        fail_msg("%s: %s", text, error.text);
    return value;
}

static json_t *recorded_keys(void)
{
    json_error_t error;
    json_t *file = json_load_file("tests/values/config_keys.json", 0, &error);
    if (!file)
        fail_msg("%s", error.text);
    return file;
}

static const struct family *family_of(const char *model_type)
{
    const struct family *family = families;
    while (family->model_type && strcmp(family->model_type, model_type) != 0)
        family++;
    if (!family->model_type)
        fail_msg("%s is no family", model_type);
    return family;
}

static void every_key_that_transformers_reads_is_known(void **state)
{
    (void)state;
    json_t *file = recorded_keys(), *keys, *key;
    const char *model_type;
    size_t i, families_found = 0;
    json_object_foreach(json_object_get(file, "families"), model_type, keys)
    {
        const struct family *family = family_of(model_type);
        families_found++;
        json_array_foreach(json_object_get(keys, "root"), i, key)
        {
            const struct config_key *known = config_key_find(family->keys, json_string_value(key));
            if (!known || (known->use == KEY_HARMLESS && !known->why)) {
                fail_msg("transformers reads \"%s\" in a %s: config_keys.c says nothing of it",
                         json_string_value(key), model_type);
            }
        }
    }
    assert_int_equal(families_found, 43);
    json_array_foreach(json_object_get(file, "generation"), i, key)
    { // dropped by transformers
        assert_null(config_key_find(KEYS_ALL, json_string_value(key)));
    }
    json_decref(file);
}

// Adds the keys of eight experts of a family, of which a token takes two.
static void add_experts(json_t *json, const struct mixture *mixture)
{
    json_t *types = parse("[\"dense\", \"dense\", \"dense\", \"sparse\", \"sparse\", \"sparse\"]");
    const struct {
        const char *key;
        int value;
    } sizes[] = {{mixture->count_keys[0], 8},
                 {mixture->chosen_keys[0], 2},
                 {mixture->width_key, 24},
                 {mixture->shared_keys[0], 1},
                 {mixture->group_best ? mixture->group_keys[0] : NULL, 4},
                 {mixture->group_best ? "topk_group" : NULL, 2},
                 {mixture->layers == EXPERTS_BEHIND ? "first_k_dense_replace" : NULL, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].key && !json_object_get(json, sizes[i].key))
            json_object_set_new(json, sizes[i].key, json_integer(sizes[i].value));
    if (strcmp(json_string_value(json_object_get(json, "model_type")), "olmoe") == 0)
        json_object_del(json, "head_dim"); // whose norms are of hidden_size
    if (mixture->group_method)
        json_object_set_new(json, "topk_method", json_string("group_limited_greedy"));
    if (mixture->layers == EXPERTS_LISTED && !json_object_get(json, "first_k_dense_replace"))
        json_object_set(json, "mlp_layer_types", types);
    json_decref(types);
}

// A small model of the family, and `more` of its keys.
static json_t *small(const struct family *family, const char *more)
{
    char text[1024];
    bool latent = family->latent.kv_rank > 0;
    const char *dense = family->kda ? "\"first_k_dense_replace\": 3, \"linear_attn_config\": {\"kda_layers\": "
                                      "[], \"full_attn_layers\": [1, 2, 3, 4, 5, 6]}, "
                                    : "";
    // Without RoPE's object there is a default one, beside which a rope_theta counts for nothing.
    bool rope = family->scales_positions && !strstr(more, "rope_");
    const char *of_rope = rope ? "\"rope_parameters\": {\"rope_type\": \"default\", \"llama_4_scaling_beta\": 0.1, "
                                 "\"original_max_position_embeddings\": 64}, "
                               : "";
    snprintf(text, sizeof text,
             "{\"model_type\": \"%s\", \"hidden_size\": 32, \"num_hidden_layers\": 6, \"num_attention_heads\": 4, "
             "\"num_key_value_heads\": %d, \"head_dim\": 16, \"intermediate_size\": 48, \"vocab_size\": 64, "
             "\"max_position_embeddings\": 4096, %s%s%s%s%s}",
             family->model_type, latent ? 4 : 2, latent ? "\"qk_rope_head_dim\": 16, " : "", dense, of_rope,
             family->global_heads ? "\"hidden_size_per_layer_input\": 0, " : "", more);
    json_t *json = parse(text);
    if (family->mixture)
        add_experts(json, family->mixture);
    return json;
}

// Steals `json`. False where it is refused.
static bool read_json(const struct scratch *scratch, json_t *json, struct config *config, struct status *status)
{
    assert_int_equal(json_dump_file(json, scratch_path(scratch, "config.json").text, 0), 0);
    json_decref(json);
    return folder_read_config(scratch->folder, config, status);
}

static struct config config_with(const struct scratch *scratch, const struct family *family, const char *more)
{
    struct config config;
    struct status status = {0};
    if (!read_json(scratch, small(family, more), &config, &status))
        fail_msg("%s, %s: %s", family->model_type, more, status.message);
    return config;
}

// Another value of a key beside `more` is read as another config; or refused by name, its own or one within it.
static void expect_read(const struct scratch *scratch, const struct family *family, const char *more,
                        const char *key, const char *value)
{
    struct config config = config_with(scratch, family, more), other;
    struct status status = {0};
    json_t *json = small(family, more);
    json_object_set_new(json, key, parse(value));
    if (read_json(scratch, json, &other, &status) ? memcmp(&other, &config, sizeof config) == 0
                                                  : !strstr(status.message, *value == '{' ? "key \"" : key)) {
        fail_msg("%s: \"%s\": %s beside %s: %s", family->model_type, key, value, more,
                 *status.message ? status.message : "changes nothing");
    }
}

// Another value of each key that is read.
static const struct {
    const char *key, *value, *more;
} others[] = {
    {"architectures", "[\"OwnForCausalLM\"]", WINDOW},
    {"vocab_size", "65", WINDOW},
    {"hidden_size", "64", WINDOW},
    {"intermediate_size", "40", WINDOW},
    {"num_hidden_layers", "2", WINDOW},
    {"num_attention_heads", "8", WINDOW},
    {"num_key_value_heads", "1", WINDOW},
    {"head_dim", "8", WINDOW},
    {"max_position_embeddings", "8192", WINDOW},
    {"original_max_position_embeddings", "256", "\"rope_scaling\": " YARN "}"},
    {"rms_norm_eps", "0.5", WINDOW},
    {"layer_norm_eps", "0.5", WINDOW},
    {"logit_scale", "2", WINDOW},
    {"global_head_dim", "32", WINDOW},
    {"num_global_key_value_heads", "4", WINDOW ", \"attention_k_eq_v\": true"},
    {"attention_k_eq_v", "true", WINDOW},
    {"per_layer_config", "{\"5\": {\"head_dim\": 8}}", WINDOW},
    {"use_bidirectional_attention", "\"all\"", WINDOW},
    {"tie_word_embeddings", "true", "\"tie_word_embeddings\": false"},
    {"rope_parameters", "{\"rope_theta\": 5.0}",
     WINDOW}, // or refused, where it has an object for each type of layer
    {"rope_scaling", "{\"type\": \"linear\", \"factor\": 2}", WINDOW},
    {"rope_theta", "5.0", WINDOW},
    {"partial_rotary_factor", "0.25", WINDOW},
    {"rope_local_base_freq", "5.0", WINDOW},
    {"hidden_act", "\"gelu_new\"", "\"hidden_act\": \"silu\""},
    {"hidden_activation", "\"silu\"", WINDOW},
    {"query_pre_attn_scalar", "25", WINDOW},
    {"attn_logit_softcapping", "20.0", WINDOW},
    {"final_logit_softcapping", "20.0", WINDOW},
    {"attention_multiplier", "0.5", WINDOW},
    {"residual_multiplier", "0.5", WINDOW},
    {"logits_scaling", "2", WINDOW},
    {"no_rope_layers", "[1, 1, 1, 1, 1, 0]", WINDOW},
    {"no_rope_layer_interval", "2", WINDOW},
    {"attention_bias", "true", WINDOW},
    {"attention_out_bias", "true", WINDOW},
    {"mlp_bias", "true", WINDOW},
    {"use_bias", "true", WINDOW},
    {"qkv_bias", "true", WINDOW},
    {"bias", "true", WINDOW},
    {"embedding_multiplier", "12", WINDOW},
    {"layer_rope_theta", "[5.0, 5.0, 5.0, 5.0, 5.0, 5.0]", WINDOW},
    {"sliding_window", "9", WINDOW},
    {"layer_types",
     "[\"full_attention\", \"sliding_attention\", \"full_attention\", \"full_attention\", \"full_attention\", "
     "\"full_attention\"]",
     WINDOW},
    {"use_sliding_window", "false", WINDOW},
    {"max_window_layers", "2", WINDOW},
    {"sliding_window_pattern", "2", WINDOW},
    {"q_lora_rank", "24", WINDOW},
    {"kv_lora_rank", "24", WINDOW},
    {"qk_nope_head_dim", "10", WINDOW},
    {"qk_rope_head_dim", "8", WINDOW},
    {"v_head_dim", "9", WINDOW},
    {"rope_interleave", "null", WINDOW}, // which is false
    {"first_k_dense_replace", "5", WINDOW},
    {"num_experts", "16", WINDOW},
    {"num_local_experts", "16", WINDOW},
    {"n_routed_experts", "16", WINDOW},
    {"moe_num_experts", "16", WINDOW},
    {"num_experts_per_tok", "3", WINDOW},
    {"num_experts_per_token", "3", WINDOW},
    {"moe_k", "3", WINDOW},
    {"moe_intermediate_size", "32", WINDOW},
    {"norm_topk_prob", "false", WINDOW},
    {"moe_renormalize", "false", WINDOW},
    {"routed_scaling_factor", "3", WINDOW},
    {"n_group", "2", WINDOW},
    {"num_expert_group", "2", WINDOW},
    {"topk_group", "3", WINDOW},
    {"topk_method", "\"greedy\"", WINDOW},
    {"n_shared_experts", "2", WINDOW},
    {"num_shared_experts", "2", WINDOW},
    {"moe_num_shared_experts", "2", WINDOW},
    {"shared_expert_intermediate_size", "40", WINDOW},
    {"decoder_sparse_step", "2", WINDOW},
    {"mlp_only_layers", "[2]", WINDOW},
    {"moe_layer_start_index", "2", WINDOW},
    {"moe_layer_end_index", "3", WINDOW},
    {"moe_layer_interval", "2", WINDOW},
    {"moe_norm_min", "0.1", WINDOW},
    {"output_router_logits", "true", WINDOW},
    {"router_aux_loss_coef", "0.5", "\"output_router_logits\": true"},
    {"swiglu_alpha", "2", WINDOW},
    {"swiglu_limit", "3", WINDOW},
    {"rotary_dim", "4", WINDOW},
    {"use_qk_norm", "true", WINDOW},
    {"full_attention_interval", "3", WINDOW},
    {"mlp_layer_types", "[\"sparse\", \"dense\", \"dense\", \"dense\", \"dense\", \"dense\"]", WINDOW},
    {"linear_attn_config", "{\"kda_layers\": [2], \"full_attn_layers\": [1]}", WINDOW},
    {"linear_conv_kernel_dim", "3", WINDOW},
    {"linear_key_head_dim", "8", WINDOW},
    {"linear_value_head_dim", "8", WINDOW},
    {"linear_num_key_heads", "2", WINDOW},
    {"linear_num_value_heads", "8", WINDOW},
    {"linear_allow_neg_eigval", "false", WINDOW},
    {"scale_emb", "3", WINDOW},
    {"scale_depth", "2", WINDOW},
    {"dim_model_base", "16", WINDOW},
    {"quantization_config", "{}", WINDOW},
    {"pad_token_id", "5", WINDOW},
};

static void expect_other(const struct scratch *scratch, const struct family *family, const char *key)
{
    size_t i = 0;
    while (i < sizeof others / sizeof *others && strcmp(others[i].key, key) != 0)
        i++;
    if (i == sizeof others / sizeof *others)
        fail_msg("there is no other value of \"%s\" here", key);
    const char *more = others[i].more, *value = others[i].value;
    if (strcmp(key, "rope_parameters") == 0 && family->local_rope_theta > 0)
        value = "{\"sliding_attention\": {\"rope_theta\": 5.0}}";
    if (strcmp(key, "attention_bias") == 0 && family->qkv_bias)
        value = "false";
    if (strcmp(key, "head_dim") == 0 && family->keys == KEYS_OLMOE)
        value = "4";
    if (strcmp(key, "linear_num_value_heads") == 0 && !family->split)
        value = "16";
    if (strcmp(key, "max_window_layers") == 0 && family->sliding == SLIDING_ALTERNATE)
        value = "3";
    if (strcmp(key, "partial_rotary_factor") == 0 && family->partial == 0.25)
        value = "0.5";
    if (strcmp(key, "qkv_bias") == 0 && family->qkv_bias)
        value = "false";
    if (strcmp(key, "norm_topk_prob") == 0 && !family->mixture->normalised)
        value = "true";
    if (strcmp(key, "original_max_position_embeddings") == 0 && family->default_rope)
        more = "\"rope_scaling\": " LONGROPE "}";
    if (strcmp(key, "original_max_position_embeddings") == 0 && family->scales_positions)
        more = "\"rope_scaling\": " YARN ", \"llama_4_scaling_beta\": 0.1}";
    bool window = family->sliding != SLIDING_NONE;
    expect_read(scratch, family, more == (const char *)WINDOW && !window ? "\"use_cache\": true" : more, key,
                value);
}

// A value is read as nothing, or refused by the key's name.
static void expect_refused(const struct scratch *scratch, const struct family *family, const char *key,
                           const char *value, bool refused)
{
    struct config config = config_with(scratch, family, "\"use_cache\": true"), other;
    struct status status = {0};
    json_t *json = small(family, "\"use_cache\": true");
    json_object_set_new(json, key, parse(value));
    bool ok = read_json(scratch, json, &other, &status);
    if (ok == refused || (ok && memcmp(&other, &config, sizeof config) != 0) ||
        (refused && !strstr(status.message, key)))
        fail_msg("%s: \"%s\": %s: %s", family->model_type, key, value, ok ? "read" : status.message);
}

static void expect_as_the_table_says(const struct scratch *scratch, const struct family *family,
                                     const struct config_key *key, const char *name)
{
    static const char *const neutral[] = {[NEUTRAL_NULL] = "null",
                                          [NEUTRAL_FALSE] = "false",
                                          [NEUTRAL_TRUE] = "true",
                                          [NEUTRAL_ZERO] = "0",
                                          [NEUTRAL_GIVEN_ZERO] = "0",
                                          [NEUTRAL_ONE] = "1.0",
                                          [NEUTRAL_FULL] = "[\"full_attention\"]"};
    static const char *const values[] = {"{\"a\": 1}", "\"text\"", "7", "[3]"};
    if (key->use == KEY_READ) {
        expect_other(scratch, family, name);
        return;
    }
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        expect_refused(scratch, family, name, values[i], key->use == KEY_REFUSED);
    if (key->use == KEY_REFUSED) {
        expect_refused(scratch, family, name, neutral[key->neutral], false);
        expect_refused(scratch, family, name, "null",
                       key->neutral == NEUTRAL_TRUE || key->neutral == NEUTRAL_GIVEN_ZERO);
    }
}

// A family reads a switch of biases exactly where it has the biases.
static void each_switch_of_biases_has_biases(void **state)
{
    (void)state;
    for (const struct bias_key *named = bias_keys; named->key; named++)
        for (const struct family *family = families; family->model_type; family++) {
            bool has = false;
            for (const struct bias_key *own = bias_keys; own->key; own++)
                has |= strcmp(own->key, named->key) == 0 && own->sets & family->keys;
            const struct config_key *key = config_key_find(family->keys, named->key);
            if (has != (key && key->use == KEY_READ))
                fail_msg("%s: %s", family->model_type, named->key);
        }
}

static void each_key_does_what_the_table_says(void **state)
{
    for (const struct config_key *key = config_keys; key->names; key++)
        for (const char *const *name = key->names; *name; name++)
            for (const struct family *family = families; family->model_type; family++)
                if (config_key_find(family->keys, *name) == key &&
                    !family->axes) // else another row, or family, has it
                    expect_as_the_table_says(*state, family, key, *name);
}

static void each_key_of_rope_is_read(void **state)
{
    static const struct {
        const char *key, *value, *object;
    } cases[] = {
        {"rope_type", "\"default\"", YARN},
        {"type", "\"linear\"", "{\"factor\": 4"},
        {"rope_theta", "5.0", YARN},
        {"partial_rotary_factor", "0.5", YARN},
        {"factor", "5", YARN},
        {"original_max_position_embeddings", "256", YARN},
        {"low_freq_factor", "2", LLAMA3},
        {"high_freq_factor", "8", LLAMA3},
        {"beta_fast", "8", YARN},
        {"beta_slow", "2", YARN},
        {"attention_factor", "1.5", YARN},
        {"mscale", "0.5", YARN ", \"mscale_all_dim\": 1"},
        {"mscale_all_dim", "0.5", YARN ", \"mscale\": 1"},
        {"truncate", "false", YARN},
        {"truncate", "null", YARN}, // which is false
        {"short_factor", "[2, 1, 1, 1, 1, 1, 1, 1]", LONGROPE},
        {"long_factor", "[1, 1, 1, 1, 1, 1, 1, 1]", LONGROPE},
        {"full_attention", "{}", YARN},
        {"sliding_attention", "null", YARN},
    };
    json_t *file = recorded_keys();
    json_t *keys = json_object_get(json_object_get(json_object_get(file, "families"), "gemma3_text"), "rope");
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *key = json_string_value(json_array_get(keys, i));
        bool found = false;
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            found |= strcmp(cases[c].key, key) == 0;
        if (!found)
            fail_msg("transformers reads \"%s\" of RoPE: there is no other value of it here", key);
    }
    json_decref(file);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char more[256];
        snprintf(more, sizeof more, "\"rope_scaling\": %s}", cases[c].object);
        struct config config = config_with(*state, family_of("llama"), more), other;
        struct status status = {0};
        json_t *json = small(family_of("llama"), more);
        json_object_set_new(json_object_get(json, "rope_scaling"), cases[c].key, parse(cases[c].value));
        if (read_json(*state, json, &other, &status) ? memcmp(&other, &config, sizeof config) == 0
                                                     : !strstr(status.message, cases[c].key))
            fail_msg("%s: %s", cases[c].key, *status.message ? status.message : "changes nothing");
    }
}

// Each is read, or told why not, or like none that is, so that none is taken for a misspelt other.
static void every_type_that_transformers_knows_is_known(void **state)
{
    (void)state;
    json_t *file = recorded_keys(), *type;
    struct names read = {0};
    size_t i, count = 0;
    for (const struct family *family = families; family->model_type; family++)
        names_add(&read, family->model_type);
    json_array_foreach(json_object_get(file, "model_types"), i, type)
    {
        const char *name = json_string_value(type);
        bool known = names_find(&read, name) < read.count, unread = family_unread(name);
        if (known && unread)
            fail_msg("%s is read, and said not to be", name);
        for (const struct composite *composite = composites; composite->model_type; composite++)
            known |= strcmp(composite->model_type, name) == 0;
        if (!known && !unread && names_nearest(&read, name))
            fail_msg("%s is taken for %s: say in unread_families why it is not read", name,
                     names_nearest(&read, name));
        count++;
    }
    assert_true(count > 800);
    json_decref(file);
}

// Configurations with two keys of one meaning.
static void one_key_wins_over_another(void **state)
{
    struct scratch *scratch = *state;
    const struct family *llama = family_of("llama");
    assert_int_equal(
        config_with(scratch, llama, "\"rope_scaling\": " LLAMA3 "}, \"original_max_position_embeddings\": 64")
            .kinds[0]
            .rope_scaling.original_context,
        64);
    struct config c =
        config_with(scratch, llama,
                    "\"rope_scaling\": {}, \"rope_parameters\": {\"type\": \"linear\", \"factor\": 4, "
                    "\"rope_theta\": 9.0}, \"rope_theta\": 5");
    assert_true(c.kinds[0].rope_theta == 9 && c.kinds[0].rope_scaling.factor == 4);
    c = config_with(
        scratch, llama,
        "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"rope_parameters\": {\"rope_theta\": 9.0}, "
        "\"rope_theta\": 5.0");
    assert_true(c.kinds[0].rope_theta == 5 && c.kinds[0].rope_scaling.factor == 2);
    c = config_with(scratch, llama, "\"rope_parameters\": {\"rope_type\": \"default\", \"type\": \"linear\"}");
    assert_true(c.kinds[0].rope_scaling.factor == 0);
    // OLMo 3 gives rope_theta to layers without a window alone, and has no pattern.
    c = config_with(scratch, family_of("olmo3"), "\"rope_theta\": 5.0, \"sliding_window_pattern\": 2");
    assert_true(c.kinds[0].rope_theta == 5e5 && config_kind(&c, 1)->window == 4096);
    c = config_with(scratch, family_of("gemma3_text"), "\"rope_theta\": 5.0, \"sliding_window_pattern\": 2");
    assert_true(c.kinds[1].rope_theta == 5 && c.kinds[0].rope_theta == 1e4 && config_kind(&c, 1)->window == 0);
}

// padding_idx of transformers' embedding: the file's, or the class's own number if the vocabulary has it.
static void padding_is_read_as_transformers_reads_it(void **state)
{
    static const struct {
        const char *more;
        bool padded;
        size_t pad;
    } cases[] = {{"\"pad_token_id\": 7", true, 7},
                 {"\"pad_token_id\": 0", true, 0},
                 {"\"pad_token_id\": -1", true, 63},
                 {"\"pad_token_id\": null", false, 0}};
    static const char *const wrong[] = {"64", "-65", "[1]", "true", "1.0", "\"<pad>\""};
    for (const struct family *family = families; family->model_type; family++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct config config = config_with(*state, family, cases[i].more);
            assert_true(config.padded == cases[i].padded && config.pad == cases[i].pad);
        }
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
            expect_refused(*state, family, "pad_token_id", wrong[i], true);
        const char *type = family->model_type;
        bool olmo = strncmp(type, "olmo", 4) == 0 && !family->split,
             first = family->centred || strncmp(type, "gemma", 5) == 0;
        struct config config = config_with(*state, family, "\"use_cache\": true");
        bool one = olmo || strcmp(type, "seed_oss") == 0, zero = first || strncmp(type, "ernie4_5", 8) == 0;
        size_t own = strcmp(type, "ministral3") == 0 ? 11 : strcmp(type, "internlm3") == 0 ? 2 : one;
        assert_true(config.padded == (own > 0 || zero) && config.pad == own);
        if (strcmp(type, "phi3") == 0) {
            config = config_with(*state, family, "\"vocab_size\": 32064");
            assert_true(config.padded && config.pad == 32000);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_that_transformers_reads_is_known),
        cmocka_unit_test(each_switch_of_biases_has_biases),
        cmocka_unit_test_setup_teardown(each_key_does_what_the_table_says, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(each_key_of_rope_is_read, scratch_setup, scratch_teardown),
        cmocka_unit_test(every_type_that_transformers_knows_is_known),
        cmocka_unit_test_setup_teardown(one_key_wins_over_another, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(padding_is_read_as_transformers_reads_it, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
