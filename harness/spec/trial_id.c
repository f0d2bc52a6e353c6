#include "harness/spec/trial_id.h"
#include "harness/spec/method_decode.h"
#include "harness/spec/trial_key_decode.h"
#include <string.h>
#include <xxhash.h>

// --- defaults

static void forget(struct kept_default *kept)
{
    json_decref(kept->value);
    json_decref(kept->name);
    json_decref(kept->bare);
    *kept = (struct kept_default){0};
}

void trial_defaults_free(struct trial_defaults *defaults)
{
    for (size_t i = 0; i < TRIAL_KEYS_MAX; i++)
        forget(&defaults->keys[i]);
}

// Drops defaults that depend on another trial.
static void rest_on(struct trial_defaults *defaults, const struct trial *trial)
{
    struct trial_basis basis;
    memset(&basis, 0, sizeof basis); // including padding
    basis.config = trial->config;
    basis.dtype = trial->dtype;
    basis.planned = trial->planned;
    basis.train_steps = trial->train.steps;
    basis.method = trial->method;
    if (memcmp(&basis, &defaults->basis, sizeof basis) == 0)
        return;
    trial_defaults_free(defaults);
    defaults->basis = basis;
}

// A key's default value; for an object, with this name and all else absent. NULL: required.
static json_t *default_of(const struct trial_basis *basis, const struct trial_key *key, struct json_field field,
                          bool object, const json_t *name)
{
    if (key->type == KEY_METHOD)
        return object ? method_json(basis->method, NULL) : NULL;
    if (!object && key->required)
        return NULL;
    // Values decoded here belong to the scratch.
    struct trial scratch = {.config = basis->config,
                            .dtype = basis->dtype,
                            .planned = basis->planned,
                            .objective = objectives[0],
                            .train = {.steps = basis->train_steps},
                            .method = basis->method};
    struct status why = {0};
    field.value = object ? json_object() : NULL;
    if (name)
        json_object_set(field.value, "name", (json_t *)name);
    json_t *value = trial_key_decode(key, &scratch, field, &why);
    json_decref(field.value);
    trial_free(&scratch);
    return value;
}

// Borrowed.
static const json_t *kept_default(struct trial_defaults *defaults, size_t key, struct json_field field)
{
    struct kept_default *kept = &defaults->keys[key];
    if (!kept->known)
        kept->value = default_of(&defaults->basis, &trial_keys[key], field, false, NULL);
    kept->known = true;
    return kept->value;
}

// Borrowed.
static const json_t *kept_bare(struct trial_defaults *defaults, size_t key, struct json_field field)
{
    struct kept_default *kept = &defaults->keys[key];
    json_t *name = json_object_get(field.value, "name");
    bool same = kept->name == name || (name && kept->name && json_equal(kept->name, name));
    if (kept->bare_known && same)
        return kept->bare;
    json_decref(kept->name);
    json_decref(kept->bare);
    kept->name = json_incref(name);
    kept->bare = default_of(&defaults->basis, &trial_keys[key], field, true, name);
    kept->bare_known = true;
    return kept->bare;
}

// --- differences from the defaults

// Removes members that equal the default's.
static void strip(json_t *object, const json_t *defaults)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(object, next, key, value)
    {
        if (strcmp(key, "name") != 0 && json_equal(value, json_object_get(defaults, key)))
            json_object_del(object, key);
    }
}

// The part of a key's value in the id: its differences from the default. NULL: none.
static json_t *part_of_id(struct trial_defaults *defaults, size_t key, struct json_field field)
{
    const json_t *absent = kept_default(defaults, key, field);
    if (json_equal(field.value, absent))
        return NULL;
    json_t *part = json_deep_copy(field.value);
    if (json_is_object(part))
        strip(part, json_is_object(absent) ? absent : kept_bare(defaults, key, field));
    return part;
}

json_t *trial_differences(const struct trial *trial, const json_t *canonical, struct trial_defaults *defaults)
{
    struct json_source source;
    json_source_wrap(&source, "trial", json_incref((json_t *)canonical));
    json_t *parts = json_object();
    rest_on(defaults, trial);
    for (size_t i = 0; i < trial_key_count(); i++) {
        struct json_field field = json_field_get(json_field_root(&source), trial_keys[i].name);
        json_t *part = part_of_id(defaults, i, field);
        if (part)
            json_object_set_new(parts, trial_keys[i].name, part);
    }
    json_source_close(&source);
    return parts;
}

// Uses defaults that depend on the dtype alone; values: an object with the key.
static struct json_field open_recorded(struct json_source *values, const struct trial_key *key, const json_t *value,
                                       enum dtype dtype, struct trial_defaults *defaults)
{
    const struct trial trial = {.dtype = dtype, .method = methods[0]};
    json_source_wrap(values, "trial", json_pack("{s:O?}", key->name, (json_t *)value));
    rest_on(defaults, &trial);
    return json_field_get(json_field_root(values), key->name);
}

bool trial_key_says_nothing(const struct trial_key *key, const json_t *value, enum dtype dtype,
                            struct trial_defaults *defaults)
{
    struct json_source values;
    struct json_field field = open_recorded(&values, key, value, dtype, defaults);
    bool same = json_equal(value, kept_default(defaults, (size_t)(key - trial_keys), field));
    json_source_close(&values);
    return same;
}

json_t *trial_key_difference(const struct trial_key *key, const json_t *value, enum dtype dtype)
{
    struct json_source values;
    struct trial_defaults defaults = {0};
    struct json_field field = open_recorded(&values, key, value, dtype, &defaults);
    json_t *part = part_of_id(&defaults, (size_t)(key - trial_keys), field);
    json_source_close(&values);
    trial_defaults_free(&defaults);
    return part;
}

void trial_id_set(struct trial *trial, const json_t *canonical, struct trial_defaults *defaults)
{
    json_t *parts = trial_differences(trial, canonical, defaults);
    char *text = json_dumps(parts, JSON_COMPACT | JSON_SORT_KEYS);
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(text, strlen(text)));
    for (size_t i = 0; i < sizeof hash.digest; i++) {
        trial->id[2 * i] = "0123456789abcdef"[hash.digest[i] >> 4];
        trial->id[2 * i + 1] = "0123456789abcdef"[hash.digest[i] & 15];
    }
    trial->id[2 * sizeof hash.digest] = 0;
    free(text);
    json_decref(parts);
}
