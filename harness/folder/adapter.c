#include "harness/folder/adapter.h"
#include "harness/folder/adapter_tensors.h"
#include "harness/folder/folder.h"
#include "harness/folder/lora_modules.h"
#include "harness/tensors/folder_contents.h"
#include "harness/tensors/weight_names.h"
#include <math.h>
#include <string.h>

#define MERGE "merge it into the weights (peft's merge_and_unload) and begin a new one"

// Keys that change the computation, unless they are null, false or empty.
static const struct {
    const char *key, *why;
} refused[] = {
    {"use_dora", "DoRA scales the rows of each weight, which is not supported; " MERGE},
    {"trainable_token_indices", "single rows of the embedding are not supported; " MERGE},
    {"layer_replication", "layers that are repeated are not supported; " MERGE},
    {"lora_bias", "a bias on lora_B is not supported; " MERGE},
    {"fan_in_fan_out", "weights are [out, in] here, as in torch.nn.Linear, not transposed; give false"},
    {"use_qalora", "QALoRA pools the input in groups, which is not supported; " MERGE},
    {"alora_invocation_tokens", "factors that begin at a token are not supported; " MERGE},
    {"arrow_config", "a choice among several adapters is not supported; " MERGE},
};

bool adapter_is_in(const char *folder)
{
    return folder_has(folder, FOLDER_ADAPTER);
}

static bool is_off(const json_t *value)
{
    bool many = json_is_object(value) || json_is_array(value);
    return !value || json_is_null(value) || json_is_false(value) ||
           (many && json_object_size(value) + json_array_size(value) == 0);
}

static bool check_choices(struct json_field root, struct status *status)
{
    static const struct names kinds = {1, {"LORA"}};
    // Other initialisations start from changed base weights, which the adapter does not store.
    static const struct names begun = {3, {"gaussian", "eva", "orthogonal"}};
    struct json_field kind = json_field_get(root, "peft_type"), bias = json_field_get(root, "bias");
    struct json_field init = json_field_get(root, "init_lora_weights");
    size_t index = 0;
    if (!json_field_choice(kind, &kinds, "kind of adapter", &index, status))
        return false;
    if (json_field_given(bias) &&
        (!json_is_string(bias.value) || strcmp(json_string_value(bias.value), "none") != 0))
        return json_field_fail(bias, status, "biases that train are not supported, expected \"none\"; " MERGE);
    if (json_is_string(init.value) && names_find(&begun, json_string_value(init.value)) == begun.count)
        return json_field_fail(init, status,
                               "factors that began with other weights than the model's are not supported; save it "
                               "with peft's path_initial_model_for_weight_conversion, or " MERGE);
    return true;
}

static bool read_numbers(struct json_field root, const struct config *config, struct lora *lora,
                         struct status *status)
{
    struct json_field rank = json_field_get(root, "r"), alpha = json_field_get(root, "lora_alpha");
    if (!rank.value)
        return json_field_expected(rank, status, "the rank of the factors");
    if (!alpha.value)
        return json_field_expected(alpha, status, "the scale of the factors' product, times their rank");
    return json_field_count(rank, 1, config->width, "", &lora->rank, status) &&
           json_field_number(alpha, LORA_ALPHA_MIN, LORA_ALPHA_MAX, &lora->alpha, status) &&
           json_field_bool(json_field_get(root, "use_rslora"), &lora->rslora, status);
}

static bool read_modules(struct json_field root, const struct config *config, struct lora *lora,
                         struct status *status)
{
    const struct lora_fields fields = {.target_modules = json_field_get(root, "target_modules"),
                                       .target_parameters = json_field_get(root, "target_parameters"),
                                       .exclude_modules = json_field_get(root, "exclude_modules"),
                                       .layers_to_transform = json_field_get(root, "layers_to_transform"),
                                       .layers_pattern = json_field_get(root, "layers_pattern"),
                                       .rank_pattern = json_field_get(root, "rank_pattern"),
                                       .alpha_pattern = json_field_get(root, "alpha_pattern"),
                                       .modules_to_save = json_field_get(root, "modules_to_save"),
                                       .ensure_weight_tying = json_field_get(root, "ensure_weight_tying")};
    return lora_modules_read(lora, &fields, config, false, status);
}

static bool read_config(const char *folder, const struct config *config, struct lora *lora, struct status *status)
{
    char *path = folder_file(folder, FOLDER_ADAPTER_CONFIG);
    struct json_source source;
    bool ok = json_source_open_python(&source, path, status);
    struct json_field root = json_field_root(&source);
    ok = ok && (json_is_object(root.value) || json_field_expected(root, status, "an object"));
    for (size_t i = 0; ok && i < sizeof refused / sizeof *refused; i++) {
        struct json_field field = json_field_get(root, refused[i].key);
        ok = is_off(field.value) || json_field_fail(field, status, "%s", refused[i].why);
    }
    ok = ok && check_choices(root, status) && read_numbers(root, config, lora, status) &&
         read_modules(root, config, lora, status);
    json_source_close(&source);
    free(path);
    return ok;
}

bool adapter_read(const char *folder, const struct config *config, struct lora *lora, struct status *status)
{
    bool described = folder_has(folder, FOLDER_ADAPTER_CONFIG);
    char contents[400];
    *lora = (struct lora){0};
    if (!described || !adapter_is_in(folder)) {
        folder_contents(folder, true, contents, sizeof contents);
        return status_set(status, STATUS_BAD_INPUT, "%s: is no PEFT adapter: it has no %s%s", folder,
                          described ? FOLDER_ADAPTER : FOLDER_ADAPTER_CONFIG, contents);
    }
    if (read_config(folder, config, lora, status) && folder_check_adapter(folder, config, lora, status))
        return true;
    lora_free(lora);
    return false;
}

// ---- writing

// Factors for the base's own modules: those of a fused projection's parts form one pair, whose rank is the sum and
// whose scale is the same.
static struct lora_factors own_factors(const struct config *config, const struct lora *lora, size_t layer,
                                       size_t target)
{
    if (!config_has_target(config, layer, 1u << target))
        return (struct lora_factors){0};
    struct lora_factors own = lora_factors_of(lora, layer, 1u << target);
    unsigned parts = 1u << target == LORA_QKV       ? LORA_Q | LORA_K | LORA_V
                     : 1u << target == LORA_GATE_UP ? LORA_GATE | LORA_UP
                                                    : 0;
    struct lora_factors part = {0};
    size_t rank = 0;
    for (size_t i = 0; config->fused && i < LORA_TARGETS; i++) {
        struct lora_factors one = parts >> i & 1 ? lora_factors_of(lora, layer, 1u << i) : (struct lora_factors){0};
        part = one.rank ? one : part;
        rank += one.rank;
    }
    if (part.rank) {
        double ratio = (double)rank / (double)part.rank;
        own = (struct lora_factors){rank, part.alpha * (lora->rslora ? sqrt(ratio) : ratio)};
    }
    return own;
}

// Describes the modules for PEFT: r and lora_alpha, and exceptions by name.
struct description {
    const struct config *config;
    const struct lora *lora;
    struct lora_factors base;
    json_t *targets, *parameters, *ranks, *alphas;
};

static void describe_factors(const struct description *d, const char *name, struct lora_factors factors)
{
    if (factors.rank != d->base.rank)
        json_object_set_new(d->ranks, name, json_integer((json_int_t)factors.rank));
    if (factors.alpha != d->base.alpha)
        json_object_set_new(d->alphas, name, json_real(factors.alpha));
}

// PEFT takes these names in target_modules for the experts' of most families with experts, but not a weight's in
// target_parameters.
static bool is_written_as_weight(const struct config *config, size_t target)
{
    bool mixed = false;
    for (size_t l = 0; l < config->layers; l++)
        mixed |= config_mlp(config, l)->chooses;
    return mixed && 1u << target & (LORA_GATE | LORA_UP | LORA_DOWN);
}

// Uses the short name if all layers with the module have the same values and the model is no part of a larger one,
// whose other parts have projections of the same names; otherwise lists each layer.
static void describe_target(const struct description *d, size_t target)
{
    bool outside = 1u << target & (LORA_EMBEDDING | LORA_HEAD), same = !d->config->submodule;
    size_t layers = outside ? 1 : d->config->layers;
    size_t lowest = 0;
    while (lowest + 1 < layers && !config_has_target(d->config, lowest, 1u << target))
        lowest++;
    struct lora_factors first = own_factors(d->config, d->lora, lowest, target);
    for (size_t l = lowest + 1; l < layers; l++) {
        struct lora_factors other = own_factors(d->config, d->lora, l, target);
        bool has = config_has_target(d->config, l, 1u << target);
        same &= !has || (other.rank == first.rank && other.alpha == first.alpha);
    }
    for (size_t l = lowest; l < (same ? lowest + 1 : layers); l++) {
        char name[64], whole[96];
        struct lora_factors factors = own_factors(d->config, d->lora, l, target);
        if (!factors.rank)
            continue;
        lora_module_name(name, sizeof name, d->config, l, target);
        adapter_name_within(whole, sizeof whole, d->config, d->config->submodule, name);
        bool weight = is_written_as_weight(d->config, target), parameter = weight || 1u << target & LORA_PARAMETERS;
        char shown[sizeof whole + sizeof ".weight"];
        snprintf(shown, sizeof shown, "%s%s", same ? lora_module_leaf(target) : whole, weight ? ".weight" : "");
        json_array_append_new(parameter ? d->parameters : d->targets, json_string(shown));
        describe_factors(d, shown, factors);
    }
}

// Rank and alpha of the first module if all are equal, else the adapter's own.
static struct lora_factors base_of(const struct config *config, const struct lora *lora)
{
    struct lora_factors first = {0};
    bool alike = true;
    for (size_t l = 0; l < config->layers; l++)
        for (size_t i = 0; i < LORA_TARGETS; i++) {
            struct lora_factors own = own_factors(config, lora, l, i);
            if (!own.rank || !lora_module_is_own(config, i))
                continue;
            first = first.rank ? first : own;
            alike &= own.rank == first.rank && own.alpha == first.alpha;
        }
    return alike ? first : (struct lora_factors){lora->rank, lora->alpha};
}

bool adapter_write_config(const char *folder, const char *base, const struct config *config,
                          const struct lora *lora, struct status *status)
{
    struct description d = {.config = config,
                            .lora = lora,
                            .base = base_of(config, lora),
                            .targets = json_array(),
                            .parameters = json_array(),
                            .ranks = json_object(),
                            .alphas = json_object()};
    json_t *base_name = base ? json_string(base) : NULL, *saved = lora->saved ? json_array() : json_null();
    for (size_t i = 0; i < LORA_TARGETS; i++)
        if (lora_module_is_own(config, i))
            describe_target(&d, i);
    for (char *const *name = lora->saved; name && *name; name++) {
        char whole[160]; // fits names of this program's modules; names of other modules are of any length and used
                         // as given
        weight_name_within(whole, sizeof whole, config->submodule, *name);
        json_array_append_new(saved, json_string(config->submodule ? whole : *name));
    }
    json_t *json = json_pack(
        "{s:s, s:s, s:o, s:I, s:f, s:b, s:f, s:s, s:b, s:o, s:o, s:o, s:o, s:b}", "peft_type", "LORA", "task_type",
        "CAUSAL_LM", "base_model_name_or_path", base_name ? base_name : json_null(), "r", (json_int_t)d.base.rank,
        "lora_alpha", d.base.alpha, "use_rslora", lora->rslora, "lora_dropout", 0.0, "bias", "none",
        "inference_mode", true, "target_modules", d.targets, "rank_pattern", d.ranks, "alpha_pattern", d.alphas,
        "modules_to_save", saved, "ensure_weight_tying", config->tied && lora->saved && !lora->untied);
    if (json_array_size(d.parameters) > 0)
        json_object_set(json, "target_parameters", d.parameters);
    json_decref(d.parameters);
    return folder_write_json(folder, FOLDER_ADAPTER_CONFIG, json, status);
}
