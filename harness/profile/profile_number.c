#include "harness/profile/profile_number.h"
#include <string.h>

bool profile_text_read(struct json_field field, const char *expected, char *text, size_t bytes,
                       struct status *status)
{
    const char *value = NULL;
    if (!field.value)
        return json_field_fail(field, status, "missing; expected %s", expected);
    if (!json_field_text(field, expected, &value, status))
        return false;
    if (strlen(value) >= bytes)
        return json_field_expected(field, status, "at most %zu bytes", bytes - 1);
    snprintf(text, bytes, "%s", value);
    return true;
}

bool profile_number_read(struct profile_number *number, struct json_field field, const char *of, double minimum,
                         double maximum, bool required, struct status *status)
{
    static const struct names known = {2, {"value", "source"}};
    if (!field.value)
        return !required || json_field_fail(field, status, "missing; expected {\"value\": ..., \"source\": ...}");
    if (!json_field_object(field, &known, of, status))
        return false;
    struct json_field value = json_field_get(field, "value");
    if (!value.value)
        return json_field_fail(value, status, "missing; expected a number");
    return json_field_number(value, minimum, maximum, &number->value, status) &&
           profile_text_read(json_field_get(field, "source"), "where the number comes from", number->source,
                             sizeof number->source, status);
}

json_t *profile_number_json(const struct profile_number *number)
{
    double value = number->value;
    bool whole = value >= 1 && value < 0x1p53 && value == (double)(json_int_t)value;
    return json_pack("{s:o, s:s}", "value", whole ? json_integer((json_int_t)value) : json_real(value), "source",
                     number->source);
}
