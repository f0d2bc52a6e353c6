#define XXH_INLINE_ALL
#include "harness/spec/trial_id.h"
#include "harness/spec/trial_key_decode.h"
#include <string.h>
#include <xxhash.h>

// What a key means where it is left out; of an object, where all of it but the name is. NULL: it must be given.
static json_t *default_of(const struct trial *trial, const struct trial_key *key, struct json_field field,
                          bool object, const json_t *name)
{
    if (key->type == KEY_METHOD)
        return object ? method_json(trial->method, NULL) : NULL;
    // What defaults of other keys depend on; what is decoded here is the scratch's own.
    struct trial scratch = {.config = trial->config,
                            .dtype = trial->dtype,
                            .planned = trial->planned,
                            .context = trial->context,
                            .objective = objectives[0],
                            .train = {.steps = trial->train.steps},
                            .method = trial->method};
    struct status why = {0};
    field.value = object ? json_object() : NULL;
    if (name)
        json_object_set(field.value, "name", (json_t *)name);
    json_t *value = trial_key_decode(key, &scratch, field, &why);
    json_decref(field.value);
    trial_free(&scratch);
    return value;
}

// Takes the members out of the object that are equal to the default's.
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

// What of a key's value goes into the id: what differs from the default. NULL: nothing.
static json_t *part_of_id(const struct trial *trial, const struct trial_key *key, struct json_field field)
{
    const json_t *value = field.value;
    json_t *absent = default_of(trial, key, field, false, NULL), *part = NULL;
    if (!json_equal(value, absent)) {
        part = json_deep_copy(value);
        CHECK(part);
    }
    if (json_is_object(part)) {
        json_t *bare = json_is_object(absent) ? json_incref(absent)
                                              : default_of(trial, key, field, true, json_object_get(value, "name"));
        strip(part, bare);
        json_decref(bare);
    }
    json_decref(absent);
    return part;
}

json_t *trial_differences(const struct trial *trial, const json_t *canonical)
{
    struct json_source source;
    json_source_wrap(&source, "trial", json_incref((json_t *)canonical));
    json_t *parts = json_object();
    for (size_t i = 0; i < trial_key_count(); i++) {
        struct json_field field = json_field_get(json_field_root(&source), trial_keys[i].name);
        json_t *part = part_of_id(trial, &trial_keys[i], field);
        if (part)
            json_object_set_new(parts, trial_keys[i].name, part);
    }
    json_source_close(&source);
    return parts;
}

void trial_id_set(struct trial *trial, const json_t *canonical)
{
    json_t *parts = trial_differences(trial, canonical);
    char *text = json_dumps(parts, JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(text);
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(text, strlen(text)));
    for (size_t i = 0; i < sizeof hash.digest; i++)
        snprintf(trial->id + 2 * i, 3, "%02x", hash.digest[i]);
    free(text);
    json_decref(parts);
}
