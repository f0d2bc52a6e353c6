// Profile number: a number of a profile, beside where it comes from: {"value": 450e9, "source": "a datasheet"}.
#pragma once
#include "harness/json/json_field.h"

struct profile_number {
    double value;     // 0: not given
    char source[256]; // the datasheet, or how it was measured
};

// A text of fewer than so many bytes, which must be there. False and a status if it is not.
bool profile_text_read(struct json_field field, const char *expected, char *text, size_t bytes,
                       struct status *status);
// of: what messages call it. What was left out and is not required stays as it is.
bool profile_number_read(struct profile_number *number, struct json_field field, const char *of, double minimum,
                         double maximum, bool required, struct status *status);
// A new reference.
json_t *profile_number_json(const struct profile_number *number);
