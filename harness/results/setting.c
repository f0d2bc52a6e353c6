#include "harness/results/setting.h"
#include "harness/files/named_options.h"
#include "harness/files/text.h"
#include "harness/results/record_json.h"
#include "harness/results/recorded_key.h"
#include "harness/spec/trial_key_decode.h"
#include "kernels/base/dtype.h"
#include "kernels/base/status.h"
#include <ctype.h>
#include <string.h>

json_t *setting_of(const json_t *trial, const char *const *within)
{
    static const char *const always[] = {"method", "measure", "context", NULL};
    json_t *setting = trial_recorded(trial);
    for (size_t i = 0; always[i]; i++) {
        json_object_del(setting, always[i]);
    }
    for (size_t i = 0; within[i]; i++) {
        json_object_del(setting, within[i]);
    }
    return setting;
}

json_t *setting_of_record(const struct record *record, const char *const *within)
{
    json_t *trial = record_trial_json(&record->trial), *setting = setting_of(trial, within);
    json_decref(trial);
    return setting;
}

// Whether the value of the first record is that of all.
static bool all_say(struct recorded_key key, const json_t *value, const struct record *const *records, size_t count)
{
    bool same = true;
    for (size_t i = 1; same && i < count; i++) {
        if (!recorded_key_alike(key, records[i], records[i - 1])) {
            json_t *own = recorded_key_value(key, records[i]);
            same = json_equal(value, own);
            json_decref(own);
        }
    }
    return same;
}

json_t *setting_common(const struct record *const *records, size_t count)
{
    static const char *const nothing[] = {NULL};
    json_t *common = setting_of_record(records[0], nothing);
    for (const struct trial_key *key = trial_keys; key->name; key++) {
        const json_t *value = json_object_get(common, key->name);
        if (value && !all_say(recorded_key_of(key), value, records, count)) {
            json_object_del(common, key->name);
        }
    }
    return common;
}

static long long count_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static const char *name_of(const json_t *value)
{
    const char *name = json_string_value(json_is_object(value) ? json_object_get(value, "name") : value);
    return name ? name : "";
}

// A preset's name, a folder's last part, or the shape of what has no name of its own.
static void append_model(char *text, size_t bytes, const json_t *model)
{
    const char *name = name_of(model);
    bool named = *name && !(json_is_object(model) && strcmp(name, "custom") == 0);
    if (named) {
        const char *slash = strrchr(name, '/');
        text_append(text, bytes, "%s", slash && slash[1] ? slash + 1 : name);
    } else if (json_is_object(model)) {
        text_append(text, bytes, "%lld layers of width %lld", count_of(model, "layers"), count_of(model, "width"));
    } else {
        text_append(text, bytes, "model");
    }
}

// What an optimizer or an objective can be asked; NULL: it is neither.
static const struct option_table *table_of(const char *key, const json_t *value)
{
    const struct optimizer *optimizer = strcmp(key, "optimizer") ? NULL : optimizer_find(name_of(value));
    const struct objective *objective = strcmp(key, "objective") ? NULL : objective_find(name_of(value));
    return optimizer ? &optimizer->options : objective ? &objective->options : NULL;
}

// "adamw rate=0.5": a value's name, and its options as far as they are not the table's defaults.
static void append_named(char *text, size_t bytes, const char *before, const json_t *value,
                         const struct option_table *table)
{
    json_t *defaults = named_options_json(name_of(value), table, NULL), *option;
    const char *key;
    text_append(text, bytes, "%s%s", before, name_of(value));
    json_object_foreach((json_t *)value, key, option)
    {
        if (!json_equal(option, json_object_get(defaults, key))) {
            char *words = json_dumps(option, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
            bool quoted = json_is_string(option);
            text_append(text, bytes, " %s=%s", key, quoted ? json_string_value(option) : words);
            free(words);
        }
    }
    json_decref(defaults);
}

bool setting_named(const char *key, const json_t *value, char *text, size_t bytes)
{
    const struct option_table *table = table_of(key, value);
    bool is_model = strcmp(key, "model") == 0 && json_is_object(value);
    if (table) {
        append_named(text, bytes, "", value, table);
    } else if (is_model) {
        append_model(text, bytes, value);
    }
    return table || is_model;
}

// Before whatever follows.
static const char *comma(const char *text)
{
    return *text ? ", " : "";
}

// "8 data ranks, zero 2"
static void append_ranks(char *text, size_t bytes, const json_t *parallel)
{
    static const char *const kinds[] = {"data", "sequence", "stage"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (count_of(parallel, kinds[i]) > 1) {
            text_append(text, bytes, "%s%lld %s ranks", comma(text), count_of(parallel, kinds[i]), kinds[i]);
        }
    }
    const char *exchange = json_string_value(json_object_get(parallel, "exchange"));
    if (exchange && count_of(parallel, "sequence") > 1) {
        text_append(text, bytes, " (%s)", exchange);
    }
    const char *sum = json_string_value(json_object_get(parallel, "sum"));
    if (sum && strcmp(sum, "engine") == 0) {
        text_append(text, bytes, ", sums by the engine");
    }
    if (json_is_true(json_object_get(parallel, "overlap"))) {
        text_append(text, bytes, ", overlapped");
    }
    if (count_of(parallel, "node") > 1) {
        text_append(text, bytes, ", nodes of %lld", count_of(parallel, "node"));
    }
    if (count_of(parallel, "zero") > 0) {
        text_append(text, bytes, ", zero %lld", count_of(parallel, "zero"));
    }
}

void setting_describe(const json_t *setting, double context, char *text, size_t bytes)
{
    *text = 0;
    const json_t *model = json_object_get(setting, "model");
    if (model) {
        append_model(text, bytes, model);
    }
    const json_t *lora = json_object_get(setting, "lora"), *dtype = json_object_get(setting, "dtype");
    if (json_is_object(lora)) {
        text_append(text, bytes, "%sLoRA rank %lld", comma(text), count_of(lora, "rank"));
    }
    if (json_is_string(json_object_get(setting, "weights"))) {
        text_append(text, bytes, "%sweights in %s", comma(text),
                    json_string_value(json_object_get(setting, "weights")));
    }
    static const char *const named[] = {"optimizer", "objective"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const json_t *value = json_object_get(setting, named[i]);
        const struct option_table *table = table_of(named[i], value);
        if (table && strcmp(name_of(value), objectives[0]->name) != 0) {
            append_named(text, bytes, comma(text), value, table);
        }
    }
    if (json_is_string(dtype)) {
        text_append(text, bytes, "%s%s", comma(text), json_string_value(dtype));
    }
    const char *kept;
    bool on_host = false;
    json_t *place;
    json_object_foreach(json_object_get(setting, "place"), kept, place)
    {
        if (json_string_value(place) && strcmp(json_string_value(place), "host") == 0) {
            text_append(text, bytes, "%s%s", on_host ? " + " : comma(text), kept);
            on_host = true;
        }
    }
    text_append(text, bytes, "%s", on_host ? " on the host" : "");
    for (const struct trial_key *key = trial_keys; key->name; key++) {
        if (key->words && json_is_true(json_object_get(setting, key->name))) {
            text_append(text, bytes, "%s%s", comma(text), key->words);
        }
    }
    append_ranks(text, bytes, json_object_get(setting, "parallel"));
    const char *device = json_string_value(json_object_get(setting, "device"));
    if (device) {
        text_append(text, bytes, "%s%s", comma(text), device);
    }
    if (json_object_get(setting, "batch")) {
        text_append(text, bytes, "%sbatch %lld", comma(text), count_of(setting, "batch"));
    }
    if (count_of(setting, "group") > 1) {
        text_append(text, bytes, "%sgroups of %lld", comma(text), count_of(setting, "group"));
    }
    if (count_of(setting, "prompt") > 0) {
        text_append(text, bytes, "%sprompt %lld", comma(text), count_of(setting, "prompt"));
    }
    if (context > 0) {
        text_append(text, bytes, "%scontext %.0f", comma(text), context);
    }
}

void setting_slug(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        unsigned char c = (unsigned char)*in;
        if (isalnum(c) || c == '.') {
            *out++ = (char)tolower(c);
        } else if (out > text && out[-1] != '-') {
            *out++ = '-';
        }
    }
    while (out > text && (out[-1] == '-' || out[-1] == '.')) {
        out--;
    }
    *out = 0;
}

static void append_value(char *text, size_t bytes, const char *key, const json_t *value)
{
    if (strcmp(key, "model") == 0) {
        text_append(text, bytes, "-");
        append_model(text, bytes, value);
    } else if (json_is_string(value) && strstr(key, "gradient_dtype")) { // two keys, the same values
        text_append(text, bytes, "-%s-%s", key, json_string_value(value));
    } else if (table_of(key, value)) {
        append_named(text, bytes, "-", value, table_of(key, value));
    } else if (json_is_string(value)) {
        text_append(text, bytes, "-%s", json_string_value(value));
    } else if (!value || json_is_null(value)) {
        text_append(text, bytes, "-no-%s", key);
    } else {
        char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
        CHECK(dump);
        text_append(text, bytes, "-%s-%s", key, dump);
        free(dump);
    }
}

// An accumulator's dtype that is the default; that an objective has no reference.
static bool goes_without_saying(const json_t *setting, const char *key, const json_t *value)
{
    const char *name = json_string_value(json_object_get(setting, "dtype")), *own = json_string_value(value);
    enum dtype dtype;
    if (strcmp(key, "reference") == 0) {
        return json_is_null(value);
    }
    return (strcmp(key, "gradient_dtype") == 0 || strcmp(key, "kv_gradient_dtype") == 0) && name && own &&
           dtype_from_name(name, &dtype) && strcmp(own, dtype_name(dtype_accumulator(dtype))) == 0;
}

void setting_suffix(const json_t *setting, json_t *const *all, size_t count, char *text, size_t bytes)
{
    *text = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)setting, key, value)
    {
        bool differs = false;
        for (size_t i = 0; i < count; i++) {
            differs |= !json_equal(json_object_get(all[i], key), value);
        }
        if (differs && !goes_without_saying(setting, key, value)) {
            append_value(text, bytes, key, value);
        }
    }
    char *slug = text;
    setting_slug(slug);
    if (*text) {
        memmove(text + 1, text, strlen(text) < bytes - 1 ? strlen(text) + 1 : bytes - 1);
        text[bytes - 1] = 0;
        *text = '-';
    }
}
