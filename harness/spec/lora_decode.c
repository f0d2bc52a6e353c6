#include "harness/files/adapter.h"
#include "harness/files/folder.h"
#include "harness/spec/trial_values.h"
#include <string.h>
#include <sys/stat.h>

#define ALL_LINEAR "all-linear"
#define EXPECTED   "the folder of a PEFT adapter, or a rank as rank=8, in a spec {\"rank\": 8}"

enum member { RANK, ALPHA, TARGETS, RSLORA, ADAPTER, MEMBERS };
// Each may also go by the name that PEFT gives it.
static const char *const member_names[MEMBERS][2] = {[RANK] = {"rank", "r"},
                                                     [ALPHA] = {"alpha", "lora_alpha"},
                                                     [TARGETS] = {"targets", "target_modules"},
                                                     [RSLORA] = {"rslora", "use_rslora"},
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

// "q", and as PEFT has it "q_proj" or "self_attn.q_proj".
static bool read_target(struct json_field item, unsigned *target, struct status *status)
{
    struct names names = {0};
    for (size_t i = 0; i < LORA_TARGETS; i++)
        names_add(&names, lora_target_names[i]);
    names_add(&names, ALL_LINEAR);
    const char *name = json_string_value(item.value), *dot = name ? strrchr(name, '.') : NULL;
    for (size_t i = 0; name && i < LORA_TARGETS; i++) {
        char module[16];
        snprintf(module, sizeof module, "%s_proj", lora_target_names[i]);
        if (strcmp(dot ? dot + 1 : name, module) == 0) {
            *target = 1u << i;
            return true;
        }
    }
    size_t index = 0;
    if (!json_field_choice(item, &names, "projection", &index, status))
        return false;
    *target = index < LORA_TARGETS ? 1u << index : (1u << LORA_TARGETS) - 1;
    return true;
}

static bool read_targets(struct json_field field, unsigned *targets, struct status *status)
{
    if (!field.value)
        return true;
    if (json_is_string(field.value))
        return read_target(field, targets, status);
    if (!json_is_array(field.value) || json_array_size(field.value) == 0)
        return json_field_expected(field, status,
                                   "a list of projections, such as [\"q\", \"v\"], or \"" ALL_LINEAR "\"");
    *targets = 0;
    for (size_t i = 0; i < json_array_size(field.value); i++) {
        struct json_field item = json_field_at(field, i);
        unsigned target = 0;
        if (!read_target(item, &target, status))
            return false;
        if (*targets & target)
            return json_field_fail(item, status, "\"%s\" is given twice", json_string_value(item.value));
        *targets |= target;
    }
    return true;
}

static json_t *targets_json(unsigned targets)
{
    json_t *list = json_array();
    for (size_t i = 0; i < LORA_TARGETS; i++) {
        if (targets & 1u << i)
            json_array_append_new(list, json_string(lora_target_names[i]));
    }
    return list;
}

// rslora and adapter where there are any: so a trial without them has the record that it always had.
static json_t *lora_json(const struct lora *lora, const char *adapter)
{
    json_t *object = json_pack("{s:I, s:f, s:o}", "rank", (json_int_t)lora->rank, "alpha", lora->alpha, "targets",
                               targets_json(lora->targets));
    if (lora->rslora)
        json_object_set_new(object, "rslora", json_true());
    if (adapter)
        json_object_set_new(object, "adapter", json_string(adapter));
    return object;
}

static bool check_folder(struct json_field field, const char *path, struct status *status)
{
    struct stat info;
    if (!path || !*path)
        return json_field_expected(field, status, EXPECTED);
    bool there = stat(path, &info) == 0;
    return (there && S_ISDIR(info.st_mode)) || json_field_fail(field, status, "%.200s: %s; expected " EXPECTED,
                                                               path, there ? "is not a folder" : "no such folder");
}

// Each member that is given says what the adapter says.
static bool check_given(const struct json_field members[MEMBERS], const struct lora *given,
                        const struct lora *found, const char *folder, struct status *status)
{
    const bool same[ADAPTER] = {[RANK] = given->rank == found->rank,
                                [ALPHA] = given->alpha == found->alpha,
                                [TARGETS] = given->targets == found->targets,
                                [RSLORA] = given->rslora == found->rslora};
    json_t *json = lora_json(found, NULL);
    bool ok = true;
    for (int i = 0; ok && i < ADAPTER; i++) {
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

// The folder of the factors to begin with: one that is given, or the model's own if that has an adapter.
static char *find_adapter(const struct trial *trial, const char *given)
{
    const char *beside = trial->model_folder && adapter_is_in(trial->model_folder) ? trial->model_folder : NULL;
    return given ? folder_path(given) : beside ? folder_path(beside) : NULL;
}

static bool read_lora(struct trial *trial, struct json_field field, struct json_field members[MEMBERS],
                      const char **given, struct status *status)
{
    struct lora lora = {8, 16, LORA_Q | LORA_V, false}, found;
    struct status why = {0};
    struct json_field adapter = json_is_string(field.value) ? field : members[ADAPTER];
    if (!json_field_count(members[RANK], 1, trial->config.width, "", &lora.rank, status) ||
        !json_field_number(members[ALPHA], LORA_ALPHA_MIN, LORA_ALPHA_MAX, &lora.alpha, status) ||
        !read_targets(members[TARGETS], &lora.targets, status) ||
        !json_field_bool(members[RSLORA], &lora.rslora, status))
        return false;
    *given = json_string_value(adapter.value);
    if (adapter.value && !check_folder(adapter, *given, status))
        return false;
    trial->adapter_folder = find_adapter(trial, *given);
    if (trial->adapter_folder) {
        if (!adapter_read(trial->adapter_folder, &trial->config, &found, &why))
            return json_field_fail(adapter.value ? adapter : field, status, "%s", why.message);
        if (!check_given(members, &lora, &found, trial->adapter_folder, status))
            return false;
        lora = found;
    }
    trial->lora = lora;
    return true;
}

json_t *decode_lora(struct trial *trial, struct json_field field, struct status *status)
{
    struct json_field members[MEMBERS] = {0};
    const char *given = NULL;
    if (!json_field_given(field) && trial->model_folder && adapter_is_in(trial->model_folder)) {
        json_field_fail(field, status,
                        "%s has an adapter (" FOLDER_ADAPTER
                        ") beside the weights, which would be left out: give the "
                        "folder here to train the adapter (--lora %s), or move it to another folder",
                        trial->model_folder, trial->model_folder);
        return NULL;
    }
    if (!json_field_given(field))
        return json_null();
    bool ok = (json_is_string(field.value) || read_members(field, members, status)) &&
              read_lora(trial, field, members, &given, status);
    return ok ? lora_json(&trial->lora, given ? trial->adapter_folder : NULL) : NULL;
}
