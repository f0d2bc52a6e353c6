// Against: a framework's own step of the trial that is asked for, planned beside this program's: what it takes,
// what its peak is made of, and what other heads would make of it.
#pragma once
#include "harness/options/search_records.h"

// Prints the step and its variants, those of them that are possible; limit_bytes: the device's memory.
void against_print(const struct plan_flags *flags, size_t limit_bytes);
// Records the same steps, as records of `longbp plan --like transformers` are. Returns false and a status if a file
// cannot be written.
bool against_record(const struct plan_flags *flags, struct search_records *records, struct status *status);
