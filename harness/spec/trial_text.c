#include "harness/spec/trial_text.h"
#include "harness/spec/method_decode.h"
#include "harness/spec/trial_id.h"
#include "harness/text/size.h"
#include "harness/text/text.h"
#include <string.h>

#define ITEMS_SHOWN 16 // in a list

static void append_value(char *text, size_t bytes, const json_t *value)
{
    if (json_is_string(value)) {
        text_append(text, bytes, "%s", json_string_value(value));
    } else if (json_is_real(value)) {
        text_append(text, bytes, "%g", json_real_value(value));
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value) && i < ITEMS_SHOWN; i++) {
            text_append(text, bytes, i ? "," : "");
            append_value(text, bytes, json_array_get(value, i));
        }
        if (json_array_size(value) > ITEMS_SHOWN)
            text_append(text, bytes, ",...");
    } else {
        char *json = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
        text_append(text, bytes, "%s", json);
        free(json);
    }
}

static void append_member(char *text, size_t bytes, const struct trial_key *key, const char *name,
                          const json_t *value, bool exact)
{
    const struct trial_key *member = key->members;
    while (member && member->name && strcmp(member->name, name) != 0)
        member++;
    text_append(text, bytes, " %s=", name);
    if (member && member->name && member->type == KEY_SIZE && exact) {
        text_append(text, bytes, "%lld B", (long long)json_integer_value(value));
    } else if (member && member->name && member->type == KEY_SIZE) {
        char size[32];
        size_text((size_t)json_integer_value(value), size, sizeof size);
        text_append(text, bytes, "%s", size);
    } else {
        append_value(text, bytes, value);
    }
}

// Tells whether an object has only nulls.
static bool is_silent(const json_t *value)
{
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)value, name, member)
    {
        if (!json_is_null(member))
            return false;
    }
    return json_object_size(value) > 0;
}

// exact: sizes in bytes.
static void write_key(const struct trial_key *key, const json_t *value, bool exact, char *text, size_t bytes)
{
    *text = 0;
    const char *name;
    const json_t *telling = key->telling ? json_object_get(value, key->telling) : NULL;
    json_t *member;
    if (json_is_null(value) || is_silent(value)) {
        text_append(text, bytes, "no %s", key->name);
    } else if (json_is_true(value)) {
        text_append(text, bytes, "%s", key->words ? key->words : key->name);
    } else if (json_is_object(value)) {
        text_append(text, bytes, telling ? "%s " : "%s", key->name);
        if (telling)
            append_value(text, bytes, telling);
        json_object_foreach((json_t *)value, name, member)
        {
            if (member != telling && !json_is_null(member))
                append_member(text, bytes, key, name, member, exact);
        }
    } else {
        text_append(text, bytes, "%s ", key->name);
        append_value(text, bytes, value);
    }
}

void trial_key_text(const struct trial_key *key, const json_t *value, char *text, size_t bytes)
{
    write_key(key, value, false, text, bytes);
}

void trial_key_text_exact(const struct trial_key *key, const json_t *value, char *text, size_t bytes)
{
    write_key(key, value, true, text, bytes);
}

bool trial_key_text_is_ambiguous(json_t *said, const struct trial_key *key, const json_t *value)
{
    char words[300], exact[300];
    trial_key_text(key, value, words, sizeof words);
    trial_key_text_exact(key, value, exact, sizeof exact);
    const char *before = json_string_value(json_object_get(said, words));
    bool ambiguous = before && strcmp(before, exact) != 0;
    json_object_set_new(said, words, json_string(exact));
    return ambiguous;
}

// Tells whether the trial's value is not the default, which a card may set. own: the differences from the CPU's
// defaults.
static bool differs(const struct trial *trial, double card_rows, double initial, const json_t *own,
                    const json_t *value)
{
    if (card_rows == 0 || !trial->suited || !trial_is_of_card(trial))
        return own != NULL;
    return (size_t)json_number_value(value) != option_on_card(card_rows, (size_t)initial, trial->batch);
}

// A chosen method is written with every option.
static void append_method(char *text, size_t bytes, const struct trial *trial, const json_t *own)
{
    json_t *all = method_json(trial->method, trial->options);
    text_append(text, bytes, "%s", trial->method->name);
    for (const struct option *option = trial->method->options.rows; option->name; option++) {
        json_t *value = json_object_get(all, option->name);
        bool said = trial->chosen || (option->telling && option->initial > 0) ||
                    differs(trial, option->card_rows, option->initial, json_object_get(own, option->name), value);
        if (said && value && !(json_is_array(value) && json_array_size(value) == 0)) {
            text_append(text, bytes, " %s=", option->name);
            append_value(text, bytes, value);
        }
    }
    json_decref(all);
}

// Writes the difference from the default; for an object also its main member.
static void append_key(char *text, size_t bytes, const struct trial_key *key, json_t *own, const json_t *all)
{
    char words[512];
    json_t *telling = key->telling ? json_object_get(all, key->telling) : NULL;
    if (json_is_object(own) && telling)
        json_object_set(own, key->telling, telling);
    trial_key_text(key, own, words, sizeof words);
    text_append(text, bytes, ", %s", words);
}

void trial_text(const struct trial *trial, const struct spec *spec, char *text, size_t bytes)
{
    // Keys at the start or end of every line.
    static const struct names framing = {4, {"method", "context", "dtype", "device"}};
    *text = 0;
    struct trial_defaults defaults = {0};
    json_t *all = json_loads(trial->canonical, 0, NULL), *own = trial_differences(trial, all, &defaults);
    trial_defaults_free(&defaults);
    append_method(text, bytes, trial, json_object_get(own, "method"));
    text_append(text, bytes, ", context %zu", trial->context);
    const json_t *model = json_object_get(all, "model");
    bool named = json_is_string(model) && strcmp(json_string_value(model), trial->config.name) == 0;
    for (size_t i = 0; i < trial_key_count(); i++) {
        const struct trial_key *key = &trial_keys[i];
        json_t *value = json_object_get(all, key->name), *part = json_object_get(own, key->name);
        part = differs(trial, key->card_rows, key->initial, part, value) ? (part ? part : value) : NULL;
        bool varies = spec && spec_varies(spec, i), is_model = strcmp(key->name, "model") == 0;
        bool said = is_model ? named : names_find(&framing, key->name) < framing.count;
        if (part && !said && (varies || !key->quiet))
            append_key(text, bytes, key, part, value);
    }
    text_append(text, bytes, ", %s %s %s", trial->config.name[0] ? trial->config.name : "model",
                dtype_name(trial->dtype), trial->device);
    json_decref(own);
    json_decref(all);
}
