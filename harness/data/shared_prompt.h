// Shared prompt: sequences that begin with the same tokens, in one row each group, where these stand once.
#pragma once
#include "harness/data/batch_file.h"

// Rows of `group` sequences of the batch, one after another: the tokens that all of them begin with, as far as no
// one predicts anything there, then of each the others up to its last label, then padding. So the last token of a
// prompt, of which every sequence predicts another one, stands in each. A sequence's loss, gradient and values stay
// what they are. Without ids the tokens are taken to be the same. path: of messages. False and a status if
// sequences of a group have not even their first token in common, or documents of their own.
bool shared_prompt_pack(struct batch_data *data, size_t group, const char *path, struct status *status);
// Tokens of each of these rows: of the longest one.
size_t shared_prompt_tokens(const struct batch_data *data, size_t group);
