// Trial decode: decodes a trial from keys with their positions: one JSON object, or values picked from a spec's
// axes.
#pragma once
#include "harness/spec/method_decode.h"
#include "harness/spec/trial_id.h"

// The given value of each key; value NULL: absent, with the path at which to report it missing.
struct trial_fields {
    struct json_field keys[TRIAL_KEYS_MAX]; // in the order of trial_keys; all but the method, which is parsed:
    struct method_fields method;
    bool suited; // absent keys have the device's own defaults, rather than the records'
};

// The field of a key, or of a member of one: "train", "train.clip".
struct json_field trial_field(const struct trial_fields *fields, const char *path);
// The field that makes a trial unsupported.
struct json_field trial_unsupported_field(const struct trial *trial, const struct trial_fields *fields);
// trial_decode for fields; a trial whose method does not fit its model or context is marked unsupported. Release
// with trial_free, also after a failure.
bool trial_decode_fields(struct trial *trial, const struct trial_fields *fields, struct trial_defaults *defaults,
                         struct status *status);
// The same without the JSON (trial->canonical): for the id, and to check the trial.
bool trial_identify_fields(struct trial *trial, const struct trial_fields *fields, struct trial_defaults *defaults,
                           struct status *status);
