// Trial key decode: the value of a trial's key, read and written by the key's row alone.
#pragma once
#include "harness/spec/trial_keys.h"

// Reads a key of any type but KEY_METHOD: the value with its defaults spelled out, a new reference, or NULL and a
// status.
json_t *trial_key_decode(const struct trial_key *key, struct trial *trial, struct json_field field,
                         struct status *status);
// The key's value in a record's trial. What a record of a version before the key, or before a member of its object,
// does not say is the default. NULL: it is not recorded, and what it was depends on other keys. A new reference.
json_t *trial_key_recorded(const struct trial_key *key, const json_t *trial);
// A copy of a record's trial, whose values are shared, with all keys as trial_key_recorded has them.
json_t *trial_recorded(const json_t *trial);
