#include "harness/options/trial_flags.h"
#include "harness/json/json_source.h"
#include "harness/json/named_options.h"
#include "harness/options/argument_words.h"
#include "harness/options/flags.h"
#include "harness/options/option_words.h"
#include "harness/options/shell.h"
#include "harness/spec/trial_keys.h"
#include "harness/text/text.h"
#include <string.h>

#define FIRST_KEY 0x1000
#define METHOD    "full" // unless one is named

// A key with a flag, and the object that it is a member of; NULL: the trial.
struct trial_flag {
    const struct trial_key *key, *parent;
};

static const char *name_of(struct trial_flag flag)
{
    return flag.key->flag ? flag.key->flag : flag.key->name;
}

static bool is_named(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names;
}

// Adds those of `keys` that have a flag and are not among `without`.
static void add_keys(struct trial_flags *flags, const struct trial_key *keys, const struct trial_key *parent,
                     const char *const *without)
{
    for (const struct trial_key *key = keys; key->name; key++) {
        struct trial_flag flag = {key, parent};
        if (key->members && is_named(without, key->name))
            continue;
        if (key->members)
            add_keys(flags, key->members, key, without);
        bool has_flag = key->argument || (key->type == KEY_BOOL && !parent);
        if (!has_flag || is_named(without, name_of(flag)))
            continue;
        flags->keys = realloc(flags->keys, (flags->key_count + 1) * sizeof *flags->keys);
        flags->keys[flags->key_count++] = flag;
    }
}

// "tokens per sequence", "dtype of weights and activations: f64, f32 or bf16 (f32)"
static char *describe(const struct trial_key *key, const char *otherwise)
{
    char standard[160] = "", choices[400], named[500];
    const char *values = key->values;
    if (key->spelling == SPELLED_NAMED || key->type == KEY_METHOD) {
        const char *list = values + strlen("a name"); // "a name of `longbp list methods`, or" as JSON
        argument_words_list(key->argument, choices, sizeof choices);
        snprintf(named, sizeof named, "%s%.*s", choices, (int)strcspn(list, ","), list);
        values = named;
    } else if (key->spelling == SPELLED_OBJECT) { // which a flag's values are not
        values = NULL;
    }
    if (!key->required && key->type != KEY_BOOL)
        trial_key_default(key, standard, sizeof standard);
    if (key->required)
        snprintf(standard, sizeof standard, "required");
    if (key->null)
        snprintf(standard, sizeof standard, "%s", key->null);
    if (key->type == KEY_METHOD)
        snprintf(standard, sizeof standard, METHOD);
    if (otherwise)
        snprintf(standard, sizeof standard, "%s", otherwise);
    return text_new("%s%s%s%s%s%s", key->meaning, values ? ": " : "", values ? values : "", *standard ? " (" : "",
                    standard, *standard ? ")" : "");
}

static json_t *value_of(const struct trial_key *key, const char *text)
{
    if (key->type == KEY_BOOL)
        return json_true();
    if (key->type == KEY_SIZE || key->spelling == SPELLED_TEXT)
        return json_string(text);
    if (key->spelling == SPELLED_NAMED)
        return flag_named(text);
    return key->spelling == SPELLED_OBJECT ? flag_object_or_value(text) : flag_value(text);
}

// head_chunk as head-chunk, and the other way round.
static char *respelled(const char *name, char from, char to)
{
    char *copy = strdup(name);
    for (char *c = copy; *c; c++)
        *c = *c == from ? to : *c;
    return copy;
}

// Adds the flag under `name` with hyphens, and a hidden alias with underscores; the names live until the flags do.
static void add_flag(struct argp_option **next, struct argp_option flag)
{
    flag.name = respelled(flag.name, '_', '-');
    *(*next)++ = flag;
    *(*next)++ =
        (struct argp_option){.name = respelled(flag.name, '-', '_'), .flags = OPTION_ALIAS | OPTION_HIDDEN};
}

void trial_flags_open(struct trial_flags *flags, const char *const *without, const struct flag *own)
{
    size_t options = 0, others = 0;
    *flags = (struct trial_flags){.trial = json_object(), .method = json_object()};
    while (methods_option(options))
        options++;
    struct argp_option *of_command = flag_options(own);
    while (of_command[others].name)
        others++;
    add_keys(flags, trial_keys, NULL, without);
    flags->options = calloc(2 * (flags->key_count + others + options) + 3, sizeof *flags->options);
    struct argp_option *next = flags->options;
    for (size_t i = 0; i < others; i++)
        add_flag(&next, of_command[i]);
    free(of_command);
    *next++ = (struct argp_option){.doc = "Keys of the trial, as in specs (`longbp list keys`):"};
    for (size_t i = 0; i < flags->key_count; i++)
        add_flag(&next, (struct argp_option){.name = name_of(flags->keys[i]),
                                             .key = FIRST_KEY + (int)i,
                                             .arg = flags->keys[i].key->argument,
                                             .flags = flags->keys[i].key->first ? OPTION_FIRST : 0,
                                             .doc = describe(flags->keys[i].key, NULL)});
    *next++ = (struct argp_option){.doc = "Options of the method:"};
    for (size_t i = 0; i < options; i++)
        add_flag(&next, (struct argp_option){.name = methods_option(i)->name,
                                             .key = FIRST_KEY + (int)(flags->key_count + i),
                                             .arg = option_argument(methods_option(i)),
                                             .flags = methods_option(i)->telling ? OPTION_FIRST : 0,
                                             .doc = option_describe(methods_option(i))});
}

void trial_flags_describe(struct trial_flags *flags, const char *name, const char *standard)
{
    for (struct argp_option *option = flags->options; option->name || option->doc; option++) {
        bool own = option->key >= FIRST_KEY && option->key < FIRST_KEY + (int)flags->key_count;
        const struct trial_flag *flag = own ? &flags->keys[option->key - FIRST_KEY] : NULL;
        if (own && strcmp(name_of(*flag), name) == 0) {
            free((char *)option->doc);
            option->doc = describe(flag->key, standard);
        }
    }
}

static void set_option(struct trial_flags *flags, const struct option *option, const char *text)
{
    json_object_set_new(flags->method, option->name,
                        option->type == OPTION_LIST || option->type == OPTION_WORDS ? flag_list(text)
                                                                                    : flag_value(text));
}

error_t trial_flags_parse(struct trial_flags *flags, int key, const char *text)
{
    if (key < FIRST_KEY || key > 0xffff) // argp's own keys are above
        return ARGP_ERR_UNKNOWN;
    size_t i = (size_t)(key - FIRST_KEY);
    if (i >= flags->key_count) {
        set_option(flags, methods_option(i - flags->key_count), text);
        return 0;
    }
    struct trial_flag flag = flags->keys[i];
    json_t *value = value_of(flag.key, text), *object = flags->trial;
    if (!value) // not UTF-8
        value = json_string("?");
    if (flag.key->type == KEY_METHOD) {
        json_object_set_new(flags->method, "name", value);
        return 0;
    }
    if (flag.key->spelling == SPELLED_BATCH && json_is_string(value)) {
        json_object_set_new(object, "data", json_pack("{s:o}", flag.key->name, value));
        return 0;
    }
    if (flag.parent) {
        object = json_object_get(flags->trial, flag.parent->name);
        if (!object)
            json_object_set_new(flags->trial, flag.parent->name, object = json_object());
    }
    json_object_set_new(object, flag.key->name, value);
    return 0;
}

// The method's entry: all that was given, or for a named method what it knows of it.
static json_t *entry_of(const struct trial_flags *flags, const char *name)
{
    const struct method *method = name ? method_find(name) : NULL;
    json_t *entry = json_object(), *value;
    const char *key;
    json_object_set_new(entry, "name", json_string(name ? name : METHOD));
    json_object_foreach(flags->method, key, value)
    {
        if (!method || option_find(&method->options, key))
            json_object_set(entry, key, value);
    }
    return entry;
}

bool trial_flags_decode(const struct trial_flags *flags, const char *method, struct trial *trial,
                        struct status *status)
{
    json_t *object = json_copy(flags->trial);
    json_object_set_new(object, "method", entry_of(flags, method));
    char *json = json_dumps(object, 0);
    bool ok = (flags->min_memory ? trial_decode : trial_decode_asked)(trial, json, JSON_COMMAND_LINE, status);
    // A spec may name it for its other objectives.
    if (ok && json_is_string(json_object_get(object, "reference")) && trial->reference.kind == REFERENCE_NONE) {
        ok = status_set(
            status, STATUS_BAD_INPUT,
            "--reference: objective \"%s\" uses none with these options; leave it out, or choose options that do",
            trial->objective->name);
        trial_free(trial);
    }
    free(json);
    json_decref(object);
    return ok;
}

// "rank=8,targets=q,v", "adamw,rate=0.001"
static char *object_text(const json_t *object)
{
    const char *named = json_string_value(json_object_get(object, "name"));
    char *text = named ? strdup(named) : NULL;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (named && strcmp(key, "name") == 0)
            continue;
        char *items = json_is_array(value) ? NULL : named_option_words(value, 0);
        for (size_t i = 0; i < json_array_size(value); i++) {
            char *part =
                text_new("%s%s%s", items ? items : "", i ? "," : "", json_string_value(json_array_get(value, i)));
            free(items);
            items = part;
        }
        char *part = text_new("%s%s%s=%s", text ? text : "", text ? "," : "", key, items ? items : "");
        free(items);
        free(text);
        text = part;
    }
    return text;
}

void trial_flags_append(const struct trial_flags *flags, const char *const *without, char **command)
{
    for (size_t i = 0; i < flags->key_count; i++) {
        struct trial_flag flag = flags->keys[i];
        const json_t *object = flag.parent ? json_object_get(flags->trial, flag.parent->name) : flags->trial,
                     *value = json_object_get(object, flag.key->name);
        if (!value && flag.key->spelling == SPELLED_BATCH)
            value = json_object_get(json_object_get(object, "data"), flag.key->name);
        if (!value || is_named(without, name_of(flag)))
            continue;
        char *text = json_is_object(value) ? object_text(value) : named_option_words(value, 0);
        shell_append_flag(command, name_of(flag), flag.key->type == KEY_BOOL ? NULL : text ? text : "");
        free(text);
    }
}

bool trial_flags_set_tokens(struct trial_flags *flags, const char *path, const char *dtype, struct status *status)
{
    bool bytes = dtype && strcmp(dtype, "bytes") == 0;
    if (dtype && !path)
        return status_set(status, STATUS_BAD_INPUT,
                          "--token-dtype %s needs --tokens FILE; give it, or leave both out", dtype);
    if (path)
        json_object_set_new(flags->trial, "data",
                            bytes   ? json_pack("{s:s}", "text", path)
                            : dtype ? json_pack("{s:s, s:s}", "tokens", path, "dtype", dtype)
                                    : json_pack("{s:s}", "tokens", path));
    return true;
}

void trial_flags_close(struct trial_flags *flags)
{
    for (struct argp_option *option = flags->options; option && (option->name || option->doc); option++) {
        free((char *)option->name);
        if (option->key >= FIRST_KEY)
            free((char *)option->doc);
        if (option->key >= FIRST_KEY + (int)flags->key_count)
            free((char *)option->arg);
    }
    free(flags->keys);
    free(flags->options);
    json_decref(flags->trial);
    json_decref(flags->method);
    *flags = (struct trial_flags){0};
}
