// Recorded key: values of trial keys in records.
#pragma once
#include "harness/record/record.h"
#include "harness/spec/trial_keys.h"

// The value by trial_key_recorded, a new reference; NULL: not recorded.
json_t *recorded_key_value(const struct trial_key *key, const struct record *record);
// Quick check whether both are certainly equal; false: compare the values.
bool recorded_key_alike(const struct trial_key *key, const struct record *a, const struct record *b);
// The name of the first key that both trials have with different values; NULL: none.
const char *recorded_key_differing(const struct record *a, const struct record *b);
