// Record check: whether a JSON value is a record of this program's schema: every key in the table of
// record_fields.h, every value of its type, no size below zero.
#pragma once
#include "kernels/base/status.h"
#include <jansson.h>

// False and a status that begins with `where` and names the key.
bool record_check(const json_t *record, const char *where, struct status *status);
// Whether a trial's method has a name, which stands in tables as it is: not empty, and without control characters.
bool record_check_method(const json_t *method);
