// Trial id: a hash of a trial's differences from the defaults, so that new keys and options do not change existing
// ids.
#pragma once
#include "harness/spec/trial_keys.h"

// A cache of default values across trials: most trials of a spec agree in everything that defaults depend on, and
// computing them takes longer than the rest of decoding. Zeroed: empty.
struct trial_defaults {
    struct trial_basis { // what defaults depend on
        struct config config;
        enum dtype dtype;
        bool planned;
        size_t train_steps;
        const struct method *method;
    } basis;
    struct kept_default {
        bool known, bare_known;
        json_t *value;       // NULL: required
        json_t *name, *bare; // defaults of an object with this name; name NULL: it has none
    } keys[TRIAL_KEYS_MAX];
};
void trial_defaults_free(struct trial_defaults *defaults);

// Differences from the defaults, for objects their members: a new reference. canonical: the trial's, with all
// defaults. defaults: see trial_decode_fields.
json_t *trial_differences(const struct trial *trial, const json_t *canonical, struct trial_defaults *defaults);
// For a record's trial, whose model may no longer exist: tells whether a key's value (not the method's) is the
// default in a trial of this dtype; and the differences, for objects their members: a new reference, NULL: none.
bool trial_key_says_nothing(const struct trial_key *key, const json_t *value, enum dtype dtype,
                            struct trial_defaults *defaults);
json_t *trial_key_difference(const struct trial_key *key, const json_t *value, enum dtype dtype);
// Sets trial->id.
void trial_id_set(struct trial *trial, const json_t *canonical, struct trial_defaults *defaults);
