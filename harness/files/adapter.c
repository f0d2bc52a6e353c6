#include "harness/files/adapter.h"
#include "harness/files/folder.h"
#include "harness/files/json_field.h"
#include "harness/files/safetensors.h"
#include <string.h>

#define MERGE "merge it into the weights (peft's merge_and_unload) and begin a new one"

// Keys that change what is computed, unless they are null, false or empty.
static const struct {
    const char *key, *why;
} refused[] = {
    {"use_dora", "DoRA scales the rows of each weight, which is not supported; " MERGE},
    {"rank_pattern", "all projections have one rank here; train it without this, or " MERGE},
    {"alpha_pattern", "all projections have one alpha here; train it without this, or " MERGE},
    {"modules_to_save", "whole modules beside the factors are not supported; " MERGE},
    {"target_parameters", "factors of bare parameters are not supported; " MERGE},
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
    // Others begin with other weights than the model's, which the adapter does not hold.
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
    ok = ok && check_choices(root, status) && read_numbers(root, config, lora, status);
    json_source_close(&source);
    free(path);
    return ok;
}

// Of "...layers.3.self_attn.q_proj.lora_A.weight" the bit of q; 0: of no projection.
static unsigned target_of(const char *name)
{
    char module[16];
    for (unsigned i = 0; i < LORA_TARGETS; i++) {
        snprintf(module, sizeof module, ".%s_proj.", lora_target_names[i]);
        if (strstr(name, module))
            return 1u << i;
    }
    return 0;
}

// The projections that have factors, whatever pattern chose them.
static bool read_targets(const char *folder, struct lora *lora, struct status *status)
{
    char *path = folder_file(folder, FOLDER_ADAPTER);
    struct safetensors file;
    bool ok = safetensors_open(&file, path, status);
    lora->targets = 0;
    for (size_t i = 0; ok && i < file.count; i++)
        lora->targets |= target_of(file.tensors[i].name);
    if (ok && !lora->targets)
        ok = status_set(status, STATUS_BAD_INPUT, "%s: has no factors of a layer's projections%s%.100s", path,
                        file.count ? ", but " : "", file.count ? file.tensors[0].name : "");
    safetensors_close(&file);
    free(path);
    return ok;
}

bool adapter_read(const char *folder, const struct config *config, struct lora *lora, struct status *status)
{
    *lora = (struct lora){0};
    if (!folder_has(folder, FOLDER_ADAPTER_CONFIG) || !adapter_is_in(folder))
        return status_set(status, STATUS_BAD_INPUT, "%s: is no PEFT adapter: it has no %s%s", folder,
                          folder_has(folder, FOLDER_ADAPTER_CONFIG) ? FOLDER_ADAPTER : FOLDER_ADAPTER_CONFIG,
                          folder_has(folder, "adapter_model.bin")
                              ? " (adapter_model.bin must be converted: save it again with a newer peft)"
                              : "");
    return read_config(folder, config, lora, status) && read_targets(folder, lora, status) &&
           folder_check_adapter(folder, config, lora, status);
}
