// Trial rest: what trials have in common that may differ in some keys: what pairs their records.
#pragma once
#include "harness/record/record.h"

// A trial without these keys, a list that ends in NULL ("limits.memory" is that part of one alone), and without
// this option of its method (NULL: none), as text that is equal where the rest is, also of records of versions
// before some keys. To be freed.
char *trial_rest(const json_t *trial, const char *const *keys, const char *option);
char *trial_rest_of_record(const struct record *record, const char *const *keys, const char *option);
