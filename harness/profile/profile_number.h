// Profile number: a number with its source: {"value": 450e9, "source": "a datasheet"}.
#pragma once
#include "harness/json/json_field.h"

struct profile_number {
    double value;     // 0: not given
    char source[256]; // the datasheet, or how it was measured
};

// Reads a required text of fewer than `bytes` bytes. Returns false and a status if it is missing or too long.
bool profile_text_read(struct json_field field, const char *expected, char *text, size_t bytes,
                       struct status *status);
// of: its name in messages. An absent number that is not required stays as it is.
bool profile_number_read(struct profile_number *number, struct json_field field, const char *of, double minimum,
                         double maximum, bool required, struct status *status);
// A new reference.
json_t *profile_number_json(const struct profile_number *number);
