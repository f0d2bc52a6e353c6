// Trial key words: what a key may be given, and its default, in words.
#pragma once
#include "harness/spec/trial_key.h"

// " of tokens", or nothing.
void trial_key_unit(const struct trial_key *key, char *text, size_t bytes);
// "a whole number of tokens >= 1", "true or false".
void trial_key_values(const struct trial_key *key, char *text, size_t bytes);
// "1", "null: the next token", "must be given".
void trial_key_default(const struct trial_key *key, char *text, size_t bytes);
