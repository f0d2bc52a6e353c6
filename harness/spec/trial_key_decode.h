// Trial key decode: reads and writes values of trial keys, using only the key's row.
#pragma once
#include "harness/spec/trial_keys.h"

// Reads a key of any type but KEY_METHOD. Returns the value with its defaults, a new reference, or NULL and a
// status.
json_t *trial_key_decode(const struct trial_key *key, struct trial *trial, struct json_field field,
                         struct status *status);
// The key's value in a record's trial. Keys and members missing in older records have their defaults. NULL: not
// recorded, and the default depends on other keys. A new reference.
json_t *trial_key_recorded(const struct trial_key *key, const json_t *trial);
// A copy of a record's trial, sharing its values, with every key as in trial_key_recorded.
json_t *trial_recorded(const json_t *trial);
