// Token summary: how a file of tokens is read and how much of the vocabulary it uses, for a user who gave the wrong
// dtype, or the tokens of another tokenizer, to see.
#pragma once
#include "harness/data/tokens.h"

// Looks at the first `count` ids of a file, or at all if there are fewer, and says on stderr, unless quiet, how
// they are stored and how many of the vocabulary's are among them. Nothing for random tokens, batch files and
// pipes. False and a status if an id is not below vocab, or the file is something else (token_format.h).
bool token_summary_say(const struct data_source *source, size_t vocab, size_t count, bool quiet,
                       struct status *status);
