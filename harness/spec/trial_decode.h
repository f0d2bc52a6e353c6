// Trial decode: a trial from its keys, each with the place it was written at: one JSON object, or what a spec's
// axes picked.
#pragma once
#include "harness/spec/method_decode.h"
#include "harness/spec/trial_id.h"

// What was given for each key; value NULL: left out. A key that was left out has the path it is missed at.
struct trial_fields {
    struct json_field keys[TRIAL_KEYS_MAX]; // in the order of trial_keys; all but the method, which is taken apart:
    struct method_fields method;
    bool suited; // what was left out is as the device's own defaults have it, not as records do
};

// The field of a key by its name.
struct json_field *trial_field(struct trial_fields *fields, const char *key);
// As trial_decode, on fields; a trial whose method does not go with its model or context says so itself. Release
// with trial_free, also after a failure.
bool trial_decode_fields(struct trial *trial, const struct trial_fields *fields, struct trial_defaults *defaults,
                         struct status *status);
// The same without its JSON (trial->canonical): for its id, and for whether it can be.
bool trial_identify_fields(struct trial *trial, const struct trial_fields *fields, struct trial_defaults *defaults,
                           struct status *status);
