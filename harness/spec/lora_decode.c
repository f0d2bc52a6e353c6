#include "harness/folder/adapter.h"
#include "harness/folder/folder.h"
#include "harness/folder/lora_modules.h"
#include "harness/spec/trial_values.h"
#include "harness/tensors/folder_contents.h"
#include "kernels/model/block.h"
#include <string.h>
#include <sys/stat.h>

#define EXPECTED "the folder of a PEFT adapter, or a rank as rank=8, in a spec {\"rank\": 8}"

enum member {
    RANK,
    ALPHA,
    TARGETS,
    RSLORA,
    EXCLUDE,
    LAYERS,
    LAYERS_PATTERN,
    RANK_PATTERN,
    ALPHA_PATTERN,
    SAVED,
    TYING,
    ADAPTER,
    MEMBERS
};
// Each member also has PEFT's name.
static const char *const member_names[MEMBERS][2] = {[RANK] = {"rank", "r"},
                                                     [ALPHA] = {"alpha", "lora_alpha"},
                                                     [TARGETS] = {"targets", "target_modules"},
                                                     [RSLORA] = {"rslora", "use_rslora"},
                                                     [EXCLUDE] = {"exclude_modules"},
                                                     [LAYERS] = {"layers_to_transform"},
                                                     [LAYERS_PATTERN] = {"layers_pattern"},
                                                     [RANK_PATTERN] = {"rank_pattern"},
                                                     [ALPHA_PATTERN] = {"alpha_pattern"},
                                                     [SAVED] = {"modules_to_save"},
                                                     [TYING] = {"ensure_weight_tying"},
                                                     [ADAPTER] = {"adapter"}};

static bool read_members(struct json_field field, struct json_field members[MEMBERS], struct status *status)
{
    struct names known = {0};
    for (int i = 0; i < MEMBERS; i++)
        for (int j = 0; j < 2 && member_names[i][j]; j++)
            names_add(&known, member_names[i][j]);
    if (!json_is_object(field.value))
        return json_field_expected(field, status, EXPECTED);
    if (!json_field_object(field, &known, "lora", status))
        return false;
    for (int i = 0; i < MEMBERS; i++) {
        const char *const *names = member_names[i];
        struct json_field theirs = json_field_get(field, names[1] ? names[1] : names[0]);
        members[i] = json_field_get(field, names[0]);
        if (names[1] && theirs.value && members[i].value)
            return json_field_fail(theirs, status, "is another name of \"%s\"; leave one of the two out", names[0]);
        if (theirs.value)
            members[i] = theirs;
    }
    return true;
}

static json_t *targets_json(unsigned targets)
{
    json_t *list = json_array();
    for (size_t i = 0; i < LORA_TARGETS; i++)
        if (targets & 1u << i)
            json_array_append_new(list, json_string(lora_target_names[i]));
    return list;
}

// The targets by short names if these determine all of them; expressions and names of one layer's module do not.
static json_t *targets_told(const struct json_field members[MEMBERS], const struct config *config,
                            const struct lora *lora, bool adapter)
{
    struct lora short_named = {.rank = 1, .alpha = 1, .targets = lora->targets}, given = {.rank = 1, .alpha = 1};
    struct lora_fields fields = {.target_modules = members[TARGETS]};
    struct status ignored = {0};
    bool told = adapter || !members[TARGETS].value;
    if (!told && lora_modules_read(&given, &fields, config, true, &ignored)) {
        told = !given.table; // in every layer, before layers and exceptions apply
        short_named.targets = given.targets;
        lora_free(&given);
    }
    return told ? targets_json(short_named.targets) : json_incref(members[TARGETS].value);
}

// Includes rslora and PEFT's other keys only if used, so that older trials' records stay equal.
static json_t *lora_json(const struct json_field members[MEMBERS], const struct config *config,
                         const struct lora *lora, const char *adapter)
{
    json_t *object = json_pack("{s:I, s:f, s:o}", "rank", (json_int_t)lora->rank, "alpha", lora->alpha, "targets",
                               targets_told(members, config, lora, adapter));
    if (lora->rslora)
        json_object_set_new(object, "rslora", json_true());
    for (int i = EXCLUDE; i < ADAPTER; i++)
        if (json_field_given(members[i]) && !json_is_false(members[i].value))
            json_object_set(object, member_names[i][0], members[i].value);
    if (adapter)
        json_object_set_new(object, "adapter", json_string(adapter));
    return object;
}

static bool check_folder(struct json_field field, const char *path, struct status *status)
{
    struct stat info;
    char contents[400];
    if (!path || !*path)
        return json_field_expected(field, status, EXPECTED);
    bool there = stat(path, &info) == 0;
    if (there && S_ISDIR(info.st_mode))
        return true;
    folder_contents(path, true, contents, sizeof contents);
    return json_field_fail(field, status, "%.200s%s; expected " EXPECTED, path,
                           *contents ? contents
                           : there   ? ": is not a folder"
                                     : ": no such folder");
}

// Checks that every given member equals the adapter's.
static bool check_given(const struct json_field members[MEMBERS], const struct lora *given,
                        const struct lora *found, const char *folder, struct status *status)
{
    const bool same[EXCLUDE] = {[RANK] = given->rank == found->rank,
                                [ALPHA] = given->alpha == found->alpha,
                                [TARGETS] = given->targets == found->targets,
                                [RSLORA] = given->rslora == found->rslora};
    static const struct json_field none[MEMBERS] = {{0}};
    json_t *json = lora_json(none, NULL, found, folder);
    bool ok = true;
    for (int i = EXCLUDE; ok && i < ADAPTER; i++)
        ok = !json_field_given(members[i]) ||
             json_field_fail(members[i], status, "the adapter in %s determines it; leave it out", folder);
    for (int i = 0; ok && i < EXCLUDE; i++) {
        char value[100];
        json_t *of_adapter = json_object_get(json, member_names[i][0]);
        json_source_show(of_adapter ? of_adapter : json_false(), value, sizeof value);
        if (members[i].value && !same[i])
            ok = json_field_expected(members[i], status, "%s, as the adapter in %s has it, or nothing", value,
                                     folder);
    }
    json_decref(json);
    return ok;
}

// The folder of the initial factors: as given, or the model's own if it has an adapter.
static char *find_adapter(const struct trial *trial, const char *given)
{
    const char *beside = trial->model_folder && adapter_is_in(trial->model_folder) ? trial->model_folder : NULL;
    return given ? folder_path(given) : beside ? folder_path(beside) : NULL;
}

// q and v; all linear modules of a model whose values have no projection of their own (latent attention), but for
// routers and experts.
static unsigned default_targets(const struct config *config)
{
    unsigned all = 0;
    bool has_values = config->layers == 0; // a default without a model
    for (size_t l = 0; l < config->layers && !has_values; l++)
        has_values = config_has_target(config, l, LORA_V);
    for (size_t i = 0; i < LORA_TARGETS; i++)
        all |= lora_module_is_own(config, i) ? 1u << i : 0;
    return has_values ? LORA_Q | LORA_V : all & ~(unsigned)(LORA_EMBEDDING | LORA_HEAD | LORA_PARAMETERS);
}

static bool read_given(const struct json_field members[MEMBERS], const struct config *config, struct lora *lora,
                       struct status *status)
{
    const struct lora_fields fields = {.target_modules = members[TARGETS],
                                       .exclude_modules = members[EXCLUDE],
                                       .layers_to_transform = members[LAYERS],
                                       .layers_pattern = members[LAYERS_PATTERN],
                                       .rank_pattern = members[RANK_PATTERN],
                                       .alpha_pattern = members[ALPHA_PATTERN],
                                       .modules_to_save = members[SAVED],
                                       .ensure_weight_tying = members[TYING]};
    *lora = (struct lora){.rank = 8, .alpha = 16, .targets = default_targets(config)};
    return json_field_count(members[RANK], 1, config->width, "", &lora->rank, status) &&
           json_field_number(members[ALPHA], LORA_ALPHA_MIN, LORA_ALPHA_MAX, &lora->alpha, status) &&
           json_field_bool(members[RSLORA], &lora->rslora, status) &&
           // Defaults are decoded without a model, which has no modules to choose from.
           (!config->layers || lora_modules_read(lora, &fields, config, true, status));
}

static bool read_lora(struct trial *trial, struct json_field field, struct json_field members[MEMBERS],
                      const char **given, struct status *status)
{
    struct lora lora, found;
    struct status why = {0};
    struct json_field adapter = json_is_string(field.value) ? field : members[ADAPTER];
    if (!read_given(members, &trial->config, &lora, status))
        return false;
    trial->lora = lora;
    *given = json_string_value(adapter.value);
    if (adapter.value && !check_folder(adapter, *given, status))
        return false;
    trial->adapter_folder = find_adapter(trial, *given);
    if (!trial->adapter_folder)
        return true;
    if (!adapter_read(trial->adapter_folder, &trial->config, &found, &why))
        return json_field_fail(adapter.value ? adapter : field, status, "%s", why.message);
    bool same = check_given(members, &lora, &found, trial->adapter_folder, status);
    lora_free(&trial->lora);
    trial->lora = found;
    return same;
}

json_t *decode_lora(struct trial *trial, struct json_field field, struct status *status)
{
    struct json_field members[MEMBERS] = {0};
    const char *given = NULL;
    if (!json_field_given(field) && trial->model_folder && adapter_is_in(trial->model_folder)) {
        json_field_fail(field, status,
                        "%s has an adapter (" FOLDER_ADAPTER
                        ") beside the weights: give the folder here to train the adapter (--lora %s), or move it "
                        "to another folder",
                        trial->model_folder, trial->model_folder);
        return NULL;
    }
    if (!json_field_given(field))
        return json_null();
    bool ok = (json_is_string(field.value) || read_members(field, members, status)) &&
              read_lora(trial, field, members, &given, status);
    return ok ? lora_json(members, &trial->config, &trial->lora, given ? trial->adapter_folder : NULL) : NULL;
}
