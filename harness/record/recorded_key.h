// Recorded key: what records say of a key of their trials.
#pragma once
#include "harness/record/record.h"
#include "harness/spec/trial_keys.h"

// Its value as trial_key_recorded has it, a new reference; NULL: it is not recorded.
json_t *recorded_key_value(const struct trial_key *key, const struct record *record);
// Whether both surely say the same, at a glance; false: look at the values.
bool recorded_key_alike(const struct trial_key *key, const struct record *a, const struct record *b);
// The name of the first key that both trials say, and say otherwise; NULL: none.
const char *recorded_key_differing(const struct record *a, const struct record *b);
