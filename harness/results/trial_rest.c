#include "harness/results/trial_rest.h"
#include "harness/spec/trial_key_decode.h"

char *trial_rest(const json_t *trial, const char *const *keys, const char *option)
{
    json_t *whole = trial_recorded(trial), *rest = json_deep_copy(whole);
    CHECK(rest);
    json_decref(whole);
    for (size_t i = 0; keys[i]; i++)
        json_object_del(rest, keys[i]);
    if (option)
        json_object_del(json_object_get(rest, "method"), option);
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(text);
    json_decref(rest);
    return text;
}
