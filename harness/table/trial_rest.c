#include "harness/table/trial_rest.h"
#include "harness/record/record_json.h"
#include "harness/spec/trial_key_decode.h"
#include <string.h>

static void leave_out(json_t *trial, const char *key)
{
    const char *part = strchr(key, '.');
    char whole[64];
    snprintf(whole, sizeof whole, "%.*s", (int)strcspn(key, "."), key);
    json_t *rest = part ? json_copy(json_object_get(trial, whole)) : NULL;
    if (part)
        json_object_del(rest, part + 1);
    if (rest)
        CHECK(json_object_set_new(trial, whole, rest) == 0);
    else
        json_object_del(trial, key);
}

char *trial_rest(const json_t *trial, const char *const *keys, const char *option)
{
    json_t *rest = trial_recorded(trial), *method = json_copy(json_object_get(rest, "method"));
    if (option && method)
        json_object_del(method, option);
    if (method)
        CHECK(json_object_set(rest, "method", method) == 0);
    for (size_t i = 0; keys[i]; i++)
        leave_out(rest, keys[i]);
    json_decref(method);
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(text);
    json_decref(rest);
    return text;
}

char *trial_rest_of_record(const struct record *record, const char *const *keys, const char *option)
{
    json_t *whole = record_trial_json(&record->trial), *trial = json_copy(whole);
    json_t *method = json_copy(json_object_get(whole, "method"));
    if (record->shares && method) {
        CHECK(json_object_update(method, (json_t *)record->shares) == 0);
        CHECK(json_object_set(trial, "method", method) == 0);
    }
    json_decref(method);
    json_decref(whole);
    char *rest = trial_rest(trial, keys, option);
    json_decref(trial);
    return rest;
}
