// Remedies: changes to a request for which nothing fits, each planned.
#pragma once
#include "harness/options/advice.h"

// Prints a line for each: flags that the command line does not have, and the fastest candidate that fits or the one
// with the least missing memory. Numbers of sequences or tokens are halved until they fit. Impossible remedies are
// left out.
void remedies_print(const struct plan_flags *flags, const struct advice *advice);
