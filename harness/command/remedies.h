// Remedies: changes to a request for which nothing fits, each planned.
#pragma once
#include "harness/options/advice.h"

// [{"flags": "--lora r=8", "fits", "choice" or "nearest", "missing"}]: flags that the command line does not have.
// Numbers of sequences or tokens are halved until they fit. "choice" is the fastest candidate that fits, "nearest"
// the one with the least missing memory. Impossible remedies are left out. A new reference.
json_t *remedies_json(const struct plan_flags *flags, const struct advice *advice);
// Prints the same as lines.
void remedies_print(const struct plan_flags *flags, const struct advice *advice);
