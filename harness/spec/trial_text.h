// Trial text: a trial in words, for lists and progress lines.
#pragma once
#include "harness/spec/spec.h"
#include "harness/spec/trial_keys.h"

// A key with its value: "lora 8 alpha=32", "kv_gradient_dtype bf16", "limits memory=24.00 GiB". Leaves out null
// members.
void trial_key_text(const struct trial_key *key, const json_t *value, char *text, size_t bytes);
// The same with sizes in bytes: "limits memory=35096013 B".
void trial_key_text_exact(const struct trial_key *key, const json_t *value, char *text, size_t bytes);
// Tells whether an earlier value, noted in the object `said`, has the same text as this one and differs only in
// exact bytes; notes this one.
bool trial_key_text_is_ambiguous(json_t *said, const struct trial_key *key, const json_t *value);
// "seco chunk=128, context 1024, lora 8, tiny f32 cpu". Leaves out options and keys at their defaults, except
// telling options; and quiet keys (trial_keys.h), unless they vary within the spec. spec NULL: a single trial.
void trial_text(const struct trial *trial, const struct spec *spec, char *text, size_t bytes);
