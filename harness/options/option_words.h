// Option words: an option's values and default over all methods, for the help of its flag.
#pragma once
#include "kernels/base/options.h"

// "lean|all": the choices of all methods with the option; else "N", "NUMBER" or "N,N". To be freed.
char *option_argument(const struct option *option);
// "tokens per chunk of the context (512)": help and default; if methods differ, also the other defaults: "(1; of
// spaco 2)". To be freed.
char *option_describe(const struct option *option);
