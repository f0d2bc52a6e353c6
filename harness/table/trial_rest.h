// Trial rest: the common part of trials that differ in some keys, by which their records are paired.
#pragma once
#include "harness/record/record.h"

// A trial without these keys, ending in NULL ("limits.memory" removes only that member), and without this method
// option (NULL: none), as text that is equal if the rest is, also for records of older versions. To be freed.
char *trial_rest(const json_t *trial, const char *const *keys, const char *option);
char *trial_rest_of_record(const struct record *record, const char *const *keys, const char *option);
