// Number JSON: a number, or null if it is not finite.
#pragma once
#include <jansson.h>

static inline json_t *number_json(double value)
{
    json_t *json = json_real(value);
    return json ? json : json_null();
}
