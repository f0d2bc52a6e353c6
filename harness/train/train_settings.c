#include "harness/train/train_settings.h"
#include "harness/data/sequences.h"

#include "harness/spec/method_decode.h"
#include "harness/step/model_hash.h"
#include <inttypes.h>

static json_t *bytes_of(const char *path)
{
    size_t bytes = path ? sequences_bytes(path) : 0;
    return bytes ? json_integer((json_int_t)bytes) : json_null();
}

// Omitted if there is nothing to hash.
static void set_hash(json_t *settings, const char *key, uint64_t hash)
{
    if (hash)
        CHECK(json_object_set_new(settings, key, json_sprintf("%016" PRIx64, hash)) == 0);
}

static uint64_t hash_of(const char *path)
{
    return path ? sequences_hash(path) : 0;
}

json_t *train_settings(const struct trial *trial)
{
    static const char *const free_to_change[] = {"limits", "host", "measure", NULL};
    json_t *settings = json_loads(trial->canonical, 0, NULL);
    CHECK(settings);
    for (size_t i = 0; free_to_change[i]; i++)
        json_object_del(settings, free_to_change[i]);
    json_t *chosen = trial_chosen(trial);
    json_object_set_new(settings, "method",
                        method_json(trial->method, trial->options)); // with auto, the chosen one
    json_object_update(json_object_get(settings, "place"), json_object_get(chosen, "place"));
    json_decref(chosen);
    json_object_set_new(settings, "data_bytes", bytes_of(trial->data.path));
    json_object_set_new(settings, "evaluate_bytes", bytes_of(trial->train.evaluate.path));
    set_hash(settings, "model_hash", model_hash(trial));
    set_hash(settings, "data_hash", hash_of(trial->data.path));
    set_hash(settings, "evaluate_hash", hash_of(trial->train.evaluate.path));
    return settings;
}
