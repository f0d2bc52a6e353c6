// Token summary: shows how a file of tokens is read and how much of the vocabulary it uses, so that users notice a
// wrong dtype or tokenizer.
#pragma once
#include "harness/data/tokens.h"

// Examines at most the first `count` ids of a file and prints on stderr, unless quiet, their format and how many
// distinct ids they use. Prints nothing for random tokens, batch files and pipes. Returns false and a status if an
// id is not below vocab or the format is another (token_format.h).
bool token_summary_say(const struct data_source *source, size_t vocab, size_t count, bool quiet,
                       struct status *status);
