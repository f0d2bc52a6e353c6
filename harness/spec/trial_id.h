// Trial id: a hash of what of a trial differs from the defaults, so that a new key, or a new option of a method,
// changes the id of no trial there is.
#pragma once
#include "harness/spec/trial_keys.h"

// What keys mean where they are left out, kept from one trial to the next: of a spec nearly all agree in what that
// depends on, and to find it out takes longer than all else of a trial. Zeroed: nothing is kept yet.
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
        json_t *value;       // NULL: it must be given
        json_t *name, *bare; // of an object with this name all else; name NULL: it has none
    } keys[TRIAL_KEYS_MAX];
};
void trial_defaults_free(struct trial_defaults *defaults);

// What differs from the defaults, of objects their members: a new reference. canonical: the trial's, every key with
// its defaults spelled out. defaults: as for trial_decode_fields.
json_t *trial_differences(const struct trial *trial, const json_t *canonical, struct trial_defaults *defaults);
// Of a record's trial, whose model may not be there any more: whether the value of a key, which is none of the
// method's, is the default in a trial of this dtype; and what of it differs, of an object its members: a new
// reference, NULL: nothing.
bool trial_key_says_nothing(const struct trial_key *key, const json_t *value, enum dtype dtype,
                            struct trial_defaults *defaults);
json_t *trial_key_difference(const struct trial_key *key, const json_t *value, enum dtype dtype);
// Sets trial->id.
void trial_id_set(struct trial *trial, const json_t *canonical, struct trial_defaults *defaults);
