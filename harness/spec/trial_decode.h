// Trial decode: a trial from its keys, each with the place it was written at: one JSON object, or what a spec's
// axes picked.
#pragma once
#include "harness/spec/method_decode.h"
#include "harness/spec/trial.h"

// The keys of a trial, in the order in which each can be checked against those before it.
enum trial_key {
    TRIAL_MODEL,
    TRIAL_DTYPE,
    TRIAL_DEVICE,
    TRIAL_PROFILE,
    TRIAL_BATCH,
    TRIAL_CONTEXT,
    TRIAL_SEED,
    TRIAL_DATA,
    TRIAL_LABELS,
    TRIAL_OBJECTIVE,
    TRIAL_ROW_WEIGHTS,
    TRIAL_LORA,
    TRIAL_OPTIMIZER,
    TRIAL_KV_GRADIENT_DTYPE,
    TRIAL_GRADIENT_DTYPE,
    TRIAL_DETERMINISTIC,
    TRIAL_TF32,
    TRIAL_WHOLE_ATTENTION,
    TRIAL_METHOD,
    TRIAL_MEASURE,
    TRIAL_LIMITS,
    TRIAL_KEYS
};
extern const char *const trial_key_names[TRIAL_KEYS + 1]; // ending in NULL

// What was given for each key; value NULL: left out. A key that was left out has the path it is missed at.
struct trial_fields {
    struct json_field keys[TRIAL_KEYS]; // all but TRIAL_METHOD, which is taken apart:
    struct method_fields method;
};

// As trial_decode, on fields. Release with trial_free, also after a failure.
bool trial_decode_fields(struct trial *trial, const struct trial_fields *fields, struct status *status);
