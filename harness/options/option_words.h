// Option words: what an option of some methods takes, and its default, for the help of its flag.
#pragma once
#include "kernels/base/options.h"

// "lean|all": every choice of the methods that have it; else "N", "NUMBER" or "N,N". To be freed.
char *option_argument(const struct option *option);
// "tokens per chunk of the context (512)": its help and its default; where methods differ, what the others have,
// too: "(1; of spaco 2)". To be freed.
char *option_describe(const struct option *option);
