// Trial text: a trial in words, for lines of lists and of progress.
#pragma once
#include "harness/spec/spec.h"
#include "harness/spec/trial_keys.h"

// A key with its value: "lora 8 alpha=32", "kv_gradient_dtype bf16", "limits memory=24.00 GiB". Members that are
// null are left out.
void trial_key_text(const struct trial_key *key, const json_t *value, char *text, size_t bytes);
// The same with sizes to the byte: "limits memory=35096013 B".
void trial_key_text_exact(const struct trial_key *key, const json_t *value, char *text, size_t bytes);
// Whether a value before, of those noted in the object `said`, has the words of this one and is told apart from it
// to the byte alone; notes this one.
bool trial_key_text_is_ambiguous(json_t *said, const struct trial_key *key, const json_t *value);
// "seco chunk=128, context 1024, lora 8, tiny f32 cpu". Options and keys that have their defaults are left out, but
// for telling options; so are quiet keys (trial_keys.h), but for those that vary within the spec. spec NULL: of one
// trial alone.
void trial_text(const struct trial *trial, const struct spec *spec, char *text, size_t bytes);
