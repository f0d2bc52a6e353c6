// Record check: whether a JSON value is a record of this program's schema (harness/results/record.h): every key
// known, every value of its type, no size below zero. A field that record.h gains must be added here.
#pragma once
#include "kernels/base/status.h"
#include <jansson.h>

// False and a status that begins with `where` and names the key.
bool record_check(const json_t *record, const char *where, struct status *status);
