// Shared prompt: packs sequences that begin with the same tokens into one row per group, which holds the prompt
// once.
#pragma once
#include "harness/data/batch_file.h"

// Packs each `group` consecutive sequences of the batch into a row: first the tokens that all begin with, as far as
// none has a label there, then for each sequence the rest up to its last label, then padding. The last prompt
// token, which each sequence labels differently, is therefore repeated in each. Losses, gradients and values of the
// sequences do not change. Without ids the tokens are assumed equal. path: for messages. Returns false and a status
// if the sequences of a group do not share even their first token, or have documents.
bool shared_prompt_pack(struct batch_data *data, size_t group, const char *path, struct status *status);
// Tokens of each such row: those of the longest one.
size_t shared_prompt_tokens(const struct batch_data *data, size_t group);
