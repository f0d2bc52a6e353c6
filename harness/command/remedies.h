// Remedies: what else could be asked for where nothing fits, each planned by itself.
#pragma once
#include "harness/options/advice.h"

// [{"flags": "--lora r=8", "fits", "choice" or "nearest", "missing"}]: of what the command line does not have yet.
// A number of sequences or tokens is halved until it fits. "choice" is the fastest that fits, "nearest" the
// candidate that comes nearest. Remedies that are not possible with what was asked for are left out. A
// new reference.
json_t *remedies_json(const struct plan_flags *flags, const struct advice *advice);
// The same as lines.
void remedies_print(const struct plan_flags *flags, const struct advice *advice);
