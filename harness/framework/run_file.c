#include "harness/framework/run_file.h"
#include "harness/framework/run_trial.h"
#include "harness/framework/yaml_file.h"
#include "harness/text/text.h"
#include "kernels/model/config.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static bool is_off(const json_t *value, double neutral)
{
    static const char *const words[] = {"", "none", "no", "false", "disabled", "off"};
    const char *key;
    json_t *member;
    if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, member) if (!is_off(member, neutral)) return false;
        return true;
    }
    if (json_is_number(value)) {
        double number = json_number_value(value);
        return (number >= 0 && number <= 0) || (number >= neutral && number <= neutral);
    }
    for (size_t i = 0; json_is_string(value) && i < sizeof words / sizeof *words; i++)
        if (strcmp(json_string_value(value), words[i]) == 0)
            return true;
    return json_is_null(value) || json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0);
}

static bool read_switch(const struct yaml_file *file, const char *key, const json_t *value, enum run_switch *fact,
                        struct status *status)
{
    const char *text = json_string_value(value);
    if (text && strcmp(text, "auto") != 0)
        return yaml_file_error(file, key, status, "expected true or false, found \"%s\", which is not known", text);
    if (!text && !json_is_boolean(value))
        return yaml_file_error(file, key, status, "expected true or false");
    *fact = text || json_is_true(value) ? SWITCH_ON : SWITCH_OFF;
    return true;
}

static bool read_targets(struct run_reading *reading, const struct yaml_file *file, const char *key,
                         const json_t *value)
{
    json_t *targets = json_array();
    if (json_is_string(value)) {
        char *words = strdup(json_string_value(value)), *rest = words;
        for (char *word; (word = strsep(&rest, ", "));)
            if (*word)
                json_array_append_new(targets, json_string(word));
        free(words);
    } else {
        json_array_extend(targets, (json_t *)value);
    }
    json_decref(reading->targets);
    reading->targets = targets;
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const char *name = json_string_value(json_array_get(targets, i)),
                   *end = name ? strstr(name, "_proj") : NULL;
        if (!name)
            return yaml_file_error(file, key, reading->status, "expected names of modules");
        if (strcmp(name, "all") == 0)
            json_array_set_new(targets, i, json_string("all-linear"));
        else if (end && !end[strlen("_proj")])
            json_array_set_new(targets, i, json_stringn(name, (size_t)(end - name)));
    }
    return true;
}

// Reads a value that is on; the key is a member of `outer`, or of the file.
static bool read_value(struct run_reading *reading, const struct yaml_file *file, const struct run_key *key,
                       const char *outer, const json_t *value);

static bool read_member(struct run_reading *reading, const struct yaml_file *file, const char *outer,
                        const char *name, const json_t *value)
{
    const struct run_key *key = run_key_find(name);
    bool flag = key && (key->use == USE_SWITCH || key->use == USE_COUNT || key->use == USE_NUMBER);
    bool parts = key && key->use == USE_PARTS && json_is_object(value);
    if (json_is_null(value) || (!flag && !parts && is_off(value, key ? key->neutral : 0)))
        return true;
    if (!key) {
        run_reading_note(reading, name, "is not known, and was not read");
        return true;
    }
    return read_value(reading, file, key, outer ? outer : name, value);
}

static bool read_value(struct run_reading *reading, const struct yaml_file *file, const struct run_key *key,
                       const char *outer, const json_t *value)
{
    char *place = (char *)&reading->facts + key->place;
    const char *name;
    json_t *member;
    switch (key->use) {
    case USE_TEXT:
        if (!json_is_string(value))
            return yaml_file_error(file, outer, reading->status, "expected a text");
        *(const char **)(void *)place = json_string_value(value);
        return true;
    case USE_COUNT:
        if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > 1 << 30)
            return yaml_file_error(file, outer, reading->status, "expected a whole number from 1 on");
        *(size_t *)(void *)place = (size_t)json_integer_value(value);
        return true;
    case USE_NUMBER:
        if (!json_is_number(value))
            return yaml_file_error(file, outer, reading->status, "expected a number");
        *(double *)(void *)place = json_number_value(value);
        return true;
    case USE_SWITCH:
        return read_switch(file, outer, value, (enum run_switch *)(void *)place, reading->status);
    case USE_TARGETS:
        return read_targets(reading, file, outer, value);
    case USE_QUANTISER:
        reading->facts.has_quantiser = true;
        // fall through
    case USE_PARTS:
        if (!json_is_object(value))
            return yaml_file_error(file, outer, reading->status, "expected keys and values");
        json_object_foreach((json_t *)value, name,
                            member) if (!read_member(reading, file, outer, name, member)) return false;
        return true;
    case USE_REFUSED:
        return yaml_file_error(file, outer, reading->status, "%s", key->why);
    case USE_UNCHECKED:
        run_reading_note(reading, key->name, key->why);
        return true;
    case USE_NONE:
        return true;
    }
    return true;
}

static bool read_keys(struct run_reading *reading, const struct yaml_file *file)
{
    const char *name;
    json_t *value;
    json_object_foreach(file->root, name, value) if (!read_member(reading, file, NULL, name, value)) return false;
    return true;
}

// ---- the trainer

static bool has_one(const struct yaml_file *file, const char *const *names)
{
    while (*names && !json_object_get(file->root, *names))
        names++;
    return *names;
}

static enum trainer trainer_of(const struct yaml_file *file)
{
    static const char *const axolotl[] = {"base_model", "micro_batch_size", "sequence_len", NULL},
                             *const factory[] = {"finetuning_type", "cutoff_len", "stage", NULL},
                             *const trl[] = {"max_length",   "max_seq_length",      "completion_only_loss",
                                             "dataset_name", "assistant_only_loss", NULL},
                             *const hf[] = {"per_device_train_batch_size", "gradient_accumulation_steps", "optim",
                                            NULL};
    return has_one(file, axolotl)   ? TRAINER_AXOLOTL
           : has_one(file, factory) ? TRAINER_LLAMA_FACTORY
           : has_one(file, trl)     ? TRAINER_OF_TRL
           : has_one(file, hf)      ? TRAINER_TRANSFORMERS
                                    : TRAINER_UNKNOWN;
}

// ---- the model

// "meta-llama/Meta-Llama-3-8B-Instruct" is of the shape of the preset "llama-3-8b".
static char *preset_of(const char *model)
{
    static const char *const endings[] = {"-instruct", "-base", "-chat", "-it", "-hf"};
    const char *slash = strrchr(model, '/'), *own = slash ? slash + 1 : model;
    char *name = strdup(strncasecmp(own, "meta-", 5) == 0 ? own + 5 : own);
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(name), ending = strlen(endings[i]);
        if (length > ending && strcmp(name + length - ending, endings[i]) == 0)
            name[length - ending] = 0;
    }
    if (!config_preset(name)) {
        free(name);
        return NULL;
    }
    return name;
}

static bool is_file(const char *folder, const char *name)
{
    struct stat found;
    char *path = text_new("%s/%s", folder, name);
    bool is = stat(path, &found) == 0;
    free(path);
    return is;
}

static void set_model(struct run_reading *reading, struct run_file *run, const char *folder)
{
    const char *model = reading->facts.model ? reading->facts.model : reading->facts.base;
    json_t *trial = reading->trial;
    char *preset;
    if (model && is_file(model, "config.json"))
        json_object_set_new(trial, "model", json_string(model));
    else if (is_file(folder, "config.json"))
        json_object_set_new(trial, "model", json_string(folder));
    else if (model && (preset = preset_of(model))) {
        char *why = text_new("model \"%s\" is planned by the shape of the preset %s", model, preset);
        json_object_set_new(trial, "model", json_string(preset));
        run_reading_note(reading, NULL, why);
        free(why);
        free(preset);
    } else if (model) {
        run->model = strdup(model);
    }
}

// Reads the dtype of the weights where the run leaves it to the model.
static bool read_dtype(struct run_reading *reading, struct yaml_file *config)
{
    const char *model = json_string_value(json_object_get(reading->trial, "model"));
    bool there = !reading->facts.dtype && model && is_file(model, "config.json");
    char *path = there ? text_new("%s/config.json", model) : NULL;
    bool read = !there || yaml_file_open(config, path, reading->status);
    const json_t *newer = json_object_get(config->root, "dtype"),
                 *older = json_object_get(config->root, "torch_dtype");
    if (there && read)
        reading->facts.dtype = json_string_value(newer ? newer : older);
    free(path);
    return read;
}

// ---- files

static bool read_file(struct run_reading *reading, struct yaml_file *file, const char *path)
{
    if (!yaml_file_open(file, path, reading->status))
        return false;
    reading->trainer = trainer_of(file);
    if (reading->trainer == TRAINER_UNKNOWN)
        return status_set(
            reading->status, STATUS_BAD_INPUT,
            "%s: the trainer is not known: expected arguments of transformers' Trainer or TRL's SFTTrainer, "
            "Axolotl's YAML or LLaMA-Factory's",
            path);
    return read_keys(reading, file);
}

// Reads PEFT's configuration in a folder, if it is there.
static bool read_adapter(struct run_reading *reading, struct yaml_file *file, const char *folder)
{
    char *path = text_new("%s/adapter_config.json", folder);
    bool there = is_file(folder, "adapter_config.json");
    bool read = !there || (yaml_file_open(file, path, reading->status) && read_keys(reading, file));
    if (there)
        reading->facts.lora = SWITCH_ON;
    free(path);
    return read;
}

bool run_file_read(struct run_file *run, const char *path, struct status *status)
{
    struct stat found;
    struct yaml_file file = {0}, adapter = {0}, config = {0};
    bool is_folder = stat(path, &found) == 0 && S_ISDIR(found.st_mode);
    char *inner = is_folder ? text_new("%s/training_args.json", path) : strdup(path);
    const char *slash = strrchr(path, '/');
    char *folder = is_folder ? strdup(path) : slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    *run = (struct run_file){.trial = json_object(), .unchecked = json_array()};
    struct run_reading reading = {.trial = run->trial, .unchecked = run->unchecked, .path = path, .status = status};
    bool read = read_file(&reading, &file, inner) && (!is_folder || read_adapter(&reading, &adapter, folder));
    reading.facts.has_targets = reading.targets || reading.facts.every_linear == SWITCH_ON;
    if (read)
        set_model(&reading, run, folder);
    read = read && read_dtype(&reading, &config) && run_trial_check(&reading);
    if (read)
        run_trial_set(&reading);
    json_decref(reading.targets);
    yaml_file_close(&file);
    yaml_file_close(&adapter);
    yaml_file_close(&config);
    free(folder);
    free(inner);
    return read;
}

void run_file_close(struct run_file *run)
{
    json_decref(run->trial);
    json_decref(run->unchecked);
    free(run->model);
    *run = (struct run_file){0};
}
