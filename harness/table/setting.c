#include "harness/table/setting.h"
#include "harness/json/named_options.h"
#include "harness/record/record_json.h"
#include "harness/record/recorded_key.h"
#include "harness/spec/trial_id.h"
#include "harness/spec/trial_key_decode.h"
#include "harness/spec/trial_text.h"
#include "harness/text/text.h"
#include "kernels/base/dtype.h"
#include "kernels/base/status.h"
#include <ctype.h>
#include <string.h>

json_t *setting_of(const json_t *trial, const char *const *within)
{
    static const char *const always[] = {"method", "measure", "context", NULL};
    json_t *setting = trial_recorded(trial);
    for (size_t i = 0; always[i]; i++)
        json_object_del(setting, always[i]);
    for (size_t i = 0; within[i]; i++)
        json_object_del(setting, within[i]);
    return setting;
}

json_t *setting_of_record(const struct record *record, const char *const *within)
{
    json_t *trial = record_trial_json(&record->trial), *setting = setting_of(trial, within);
    json_decref(trial);
    return setting;
}

// Tells whether all records have the first one's value.
static bool all_say(const struct trial_key *key, const json_t *value, const struct record *const *records,
                    size_t count)
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
        if (value && !all_say(key, value, records, count))
            json_object_del(common, key->name);
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

// A preset's name, a folder's last part, or an unnamed model's shape.
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

// The options of an optimizer or an objective; NULL: neither.
static const struct option_table *table_of(const char *key, const json_t *value)
{
    const struct optimizer *optimizer = strcmp(key, "optimizer") ? NULL : optimizer_find(name_of(value));
    const struct objective *objective = strcmp(key, "objective") ? NULL : objective_find(name_of(value));
    return optimizer ? &optimizer->options : objective ? &objective->options : NULL;
}

// "adamw rate=0.5": a value's name, and options that differ from the defaults.
static void append_named(char *text, size_t bytes, const json_t *value, const struct option_table *table)
{
    json_t *defaults = named_options_json(name_of(value), table, NULL), *option;
    const char *key;
    text_append(text, bytes, "%s", name_of(value));
    json_object_foreach((json_t *)value, key, option)
    {
        if (!json_equal(option, json_object_get(defaults, key))) {
            char *words = named_option_words(option, 6);
            text_append(text, bytes, " %s=%s", key, words);
            free(words);
        }
    }
    json_decref(defaults);
}

bool setting_named(const char *key, const json_t *value, char *text, size_t bytes)
{
    const struct option_table *table = table_of(key, value);
    bool is_model = strcmp(key, "model") == 0 && json_is_object(value);
    if (table)
        append_named(text, bytes, value, table);
    else if (is_model)
        append_model(text, bytes, value);
    return table || is_model;
}

// Separates from the following words.
static const char *comma(const char *text)
{
    return *text ? ", " : "";
}

static const struct trial_key *key_of(const char *name)
{
    return &trial_keys[trial_key_find(name)];
}

// " alpha=32": an object's members except `told`.
static void append_rest(char *text, size_t bytes, const char *key, const json_t *object, const char *told)
{
    char words[300];
    json_t *rest = json_copy((json_t *)object);
    json_object_del(rest, told);
    trial_key_text(key_of(key), rest, words, sizeof words);
    if (json_object_size(rest))
        text_append(text, bytes, "%s%s", *text ? " " : "", words + strlen(key) + 1);
    json_decref(rest);
}

// "LoRA rank 8 alpha=32"
static void append_lora(char *text, size_t bytes, const json_t *lora)
{
    text_append(text, bytes, json_object_get(lora, "rank") ? "LoRA rank %lld" : "LoRA", count_of(lora, "rank"));
    append_rest(text, bytes, "lora", lora, "rank");
}

// "20 steps schedule=cosine"
static void append_train(char *text, size_t bytes, const json_t *train)
{
    if (json_object_get(train, "steps"))
        text_append(text, bytes, "%lld steps", count_of(train, "steps"));
    append_rest(text, bytes, "train", train, "steps");
}

static void append_quantised(char *text, size_t bytes, const json_t *weights)
{
    text_append(text, bytes, "weights in %s", name_of(weights));
}

static void append_optimizer(char *text, size_t bytes, const json_t *optimizer)
{
    setting_named("optimizer", optimizer, text, bytes);
}

// The default is omitted.
static void append_objective(char *text, size_t bytes, const json_t *objective)
{
    if (json_is_object(objective) || strcmp(name_of(objective), objectives[0]->name) != 0)
        setting_named("objective", objective, text, bytes);
}

static void append_text(char *text, size_t bytes, const json_t *value)
{
    text_append(text, bytes, "%s", name_of(value));
}

// "8 data ranks, zero 2"
static void append_ranks(char *text, size_t bytes, const json_t *parallel)
{
    static const char *const kinds[] = {"data", "sequence", "stage", "experts"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (count_of(parallel, kinds[i]) > 1)
            text_append(text, bytes, "%s%lld %s ranks", comma(text), count_of(parallel, kinds[i]),
                        i == 3 ? "expert" : kinds[i]);
    const char *exchange = json_string_value(json_object_get(parallel, "exchange"));
    if (exchange && count_of(parallel, "sequence") > 1)
        text_append(text, bytes, " (%s)", exchange);
    const char *sum = json_string_value(json_object_get(parallel, "sum"));
    if (sum && strcmp(sum, "engine") == 0)
        text_append(text, bytes, "%ssums by the engine", comma(text));
    if (json_is_true(json_object_get(parallel, "overlap")))
        text_append(text, bytes, "%soverlapped", comma(text));
    if (count_of(parallel, "node") > 1)
        text_append(text, bytes, "%snodes of %lld", comma(text), count_of(parallel, "node"));
    if (count_of(parallel, "zero") > 0)
        text_append(text, bytes, "%szero %lld", comma(text), count_of(parallel, "zero"));
}

static void append_kv_gradient(char *text, size_t bytes, const json_t *dtype)
{
    text_append(text, bytes, "dKV %s", name_of(dtype));
}

static void append_gradient(char *text, size_t bytes, const json_t *dtype)
{
    text_append(text, bytes, "gradients %s", name_of(dtype));
}

static void append_batch(char *text, size_t bytes, const json_t *batch)
{
    text_append(text, bytes, "batch %lld", (long long)json_integer_value(batch));
}

static void append_group(char *text, size_t bytes, const json_t *group)
{
    if (json_integer_value(group) > 1)
        text_append(text, bytes, "groups of %lld", (long long)json_integer_value(group));
}

// Keys with their own wording, in order; other keys come between.
static const struct wording {
    const char *key;
    void (*append)(char *text, size_t bytes, const json_t *value);
    bool whole;       // gets the whole value; otherwise the difference from the default
    const char *told; // plus this member; NULL: none
} before[] = {{.key = "model", .append = append_model, .whole = true},
              {.key = "lora", .append = append_lora, .told = "rank"},
              {.key = "weights", .append = append_quantised},
              {.key = "optimizer", .append = append_optimizer, .whole = true},
              {.key = "objective", .append = append_objective, .whole = true},
              {.key = "dtype", .append = append_text, .whole = true},
              {.key = "kv_gradient_dtype", .append = append_kv_gradient},
              {.key = "gradient_dtype", .append = append_gradient},
              {.key = "parallel", .append = append_ranks, .whole = true},
              {.key = "train", .append = append_train, .told = "steps"},
              {0}},
  behind[] = {{.key = "device", .append = append_text, .whole = true},
              {.key = "batch", .append = append_batch, .whole = true},
              {.key = "group", .append = append_group, .whole = true},
              {0}};

static const struct wording *wording_of(const char *key)
{
    const struct wording *tables[] = {before, behind};
    for (size_t i = 0; i < 2; i++)
        for (const struct wording *wording = tables[i]; wording->key; wording++)
            if (strcmp(wording->key, key) == 0)
                return wording;
    return NULL;
}

// The difference of the value from the default, and the member `told`.
static json_t *telling_part(const json_t *setting, const struct trial_key *key, const json_t *value,
                            const char *told)
{
    const char *name = json_string_value(json_object_get(setting, "dtype"));
    enum dtype dtype;
    if (!name || !dtype_from_name(name, &dtype))
        dtype = DTYPE_F32; // for models of several dtypes with the same value
    json_t *part = trial_key_difference(key, value, dtype), *member = told ? json_object_get(value, told) : NULL;
    if (json_is_object(part) && member)
        json_object_set(part, told, member);
    return part;
}

// Appends the words of a key's value, none for a default.
static void append_words(char *text, size_t bytes, const json_t *setting, const struct trial_key *key,
                         const json_t *value)
{
    char words[400] = "";
    const struct wording *wording = wording_of(key->name);
    json_t *part = wording && wording->whole ? json_incref((json_t *)value)
                                             : telling_part(setting, key, value, wording ? wording->told : NULL);
    bool said = part && !json_is_null(part) && !(json_is_object(part) && json_object_size(part) == 0);
    if (said && wording)
        wording->append(words, sizeof words, part);
    else if (said)
        trial_key_text(key, part, words, sizeof words);
    if (*words)
        text_append(text, bytes, "%s%s", comma(text), words);
    json_decref(part);
}

static void append_key(char *text, size_t bytes, const json_t *setting, const char *name)
{
    const json_t *value = json_object_get(setting, name);
    if (value)
        append_words(text, bytes, setting, key_of(name), value);
}

void setting_describe(const json_t *setting, double context, char *text, size_t bytes)
{
    static const struct names apart = {2, {"method", "context"}};
    *text = 0;
    for (const struct wording *wording = before; wording->key; wording++)
        append_key(text, bytes, setting, wording->key);
    for (const struct trial_key *key = trial_keys; key->name; key++)
        if (!key->quiet && !wording_of(key->name) && names_find(&apart, key->name) == apart.count)
            append_key(text, bytes, setting, key->name);
    for (const struct wording *wording = behind; wording->key; wording++)
        append_key(text, bytes, setting, wording->key);
    if (context > 0)
        text_append(text, bytes, "%scontext %.0f", comma(text), context);
}

void setting_slug(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        unsigned char c = (unsigned char)*in;
        if (isalnum(c) || c == '.')
            *out++ = (char)tolower(c);
        else if (out > text && out[-1] != '-')
            *out++ = '-';
    }
    while (out > text && (out[-1] == '-' || out[-1] == '.'))
        out--;
    *out = 0;
}

// The members in which settings differ.
static json_t *differing_part(const char *key, const json_t *value, json_t *const *all, size_t count)
{
    json_t *part = json_object(), *member;
    const char *name;
    json_object_foreach((json_t *)value, name, member)
    {
        bool differs = false;
        for (size_t i = 0; i < count; i++)
            differs |= !json_equal(json_object_get(json_object_get(all[i], key), name), member);
        if (differs)
            json_object_set(part, name, member);
    }
    return part;
}

// Appends the described value; includes defaults of values that are no objects.
static void append_value(char *text, size_t bytes, const json_t *setting, const char *name, const json_t *value,
                         json_t *const *all, size_t count)
{
    size_t row = trial_key_find(name);
    const struct trial_key unknown = {.name = name}, *key = row < trial_key_count() ? &trial_keys[row] : &unknown;
    const struct wording *wording = wording_of(name);
    const struct option_table *table = table_of(name, value);
    bool parts = json_is_object(value) && !(wording && wording->whole);
    json_t *said = parts ? differing_part(name, value, all, count) : json_incref((json_t *)value);
    char words[400] = "";
    if (json_is_null(value))
        text_append(words, sizeof words, strcmp(name, "reference") ? "no %s" : "", name);
    else if (table)
        append_named(words, sizeof words, value, table);
    else if (key != &unknown && (wording || parts))
        append_words(words, sizeof words, setting, key, said);
    else if (json_is_string(value))
        text_append(words, sizeof words, "%s", json_string_value(value));
    else
        trial_key_text(key, value, words, sizeof words);
    text_append(text, bytes, "%s%s", *words ? "-" : "", words);
    json_decref(said);
}

void setting_suffix(const json_t *setting, json_t *const *all, size_t count, char *text, size_t bytes)
{
    *text = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)setting, key, value)
    {
        bool differs = false;
        for (size_t i = 0; i < count; i++)
            differs |= !json_equal(json_object_get(all[i], key), value);
        if (differs)
            append_value(text, bytes, setting, key, value, all, count);
    }
    char *slug = text;
    setting_slug(slug);
    if (*text) {
        memmove(text + 1, text, strlen(text) < bytes - 1 ? strlen(text) + 1 : bytes - 1);
        text[bytes - 1] = 0;
        *text = '-';
    }
}
