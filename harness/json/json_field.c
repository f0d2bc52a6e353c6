#include "harness/json/json_field.h"
#include "harness/text/size.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

#define SHOWN 100

struct json_field json_field_root(const struct json_source *source)
{
    return (struct json_field){.value = source->root, .source = source};
}

struct json_field json_field_get(struct json_field object, const char *key)
{
    return (struct json_field){json_object_get(object.value, key), object.source, json_path_key(object.path, key)};
}

struct json_field json_field_at(struct json_field list, size_t index)
{
    return (struct json_field){json_array_get(list.value, index), list.source, json_path_index(list.path, index)};
}

bool json_field_given(struct json_field field)
{
    return field.value && !json_is_null(field.value);
}

bool json_field_fail(struct json_field field, struct status *status, const char *format, ...)
{
    char message[sizeof status->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return json_source_error(field.source, field.path, JSON_VALUE, status, "%s", message);
}

bool json_field_expected(struct json_field field, struct status *status, const char *format, ...)
{
    char message[sizeof status->message], found[SHOWN];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    json_source_show(field.value, found, sizeof found);
    return json_source_error(field.source, field.path, JSON_VALUE, status, "expected %s, found %s", message, found);
}

json_t *json_refused(bool read)
{
    (void)read;
    return NULL;
}

bool json_field_object(struct json_field field, const struct names *known, const char *of, struct status *status)
{
    if (!json_is_object(field.value)) {
        char hint[640];
        names_hint(known, NULL, "keys", hint, sizeof hint);
        return json_field_expected(field, status, "an object with the %s", hint);
    }
    const char *key;
    json_t *value;
    json_object_foreach(field.value, key, value)
    {
        if (names_find(known, key) < known->count)
            continue;
        char hint[640], place[64] = "";
        names_hint(known, key, "known keys", hint, sizeof hint);
        if (of)
            snprintf(place, sizeof place, " of \"%s\"", of);
        return json_source_error(field.source, json_path_key(field.path, key), JSON_KEY, status,
                                 "unknown key%s; %s", place, hint);
    }
    return true;
}

bool json_field_count(struct json_field field, size_t minimum, size_t maximum, const char *unit, size_t *value,
                      struct status *status)
{
    if (!field.value)
        return true;
    json_int_t found = json_integer_value(field.value);
    if (json_is_integer(field.value) && found >= 0 && (size_t)found >= minimum && (size_t)found <= maximum) {
        *value = (size_t)found;
        return true;
    }
    bool above = json_is_integer(field.value) && found > 0 && (size_t)found > maximum;
    if (above && maximum == JSON_INTEGER_MAX)
        return json_field_expected(field, status, "a whole number%s up to 2^53 = %zu", unit, maximum);
    if (above)
        return json_field_expected(field, status, "a whole number%s from %zu to %zu", unit, minimum, maximum);
    return json_field_expected(field, status, "a whole number%s >= %zu", unit, minimum);
}

bool json_field_tokens(struct json_field field, size_t minimum, size_t maximum, const char *unit, size_t *value,
                       struct status *status)
{
    size_t tokens;
    if (!json_is_string(field.value))
        return json_field_count(field, minimum, maximum, unit, value, status);
    if (!size_parse_tokens(json_string_value(field.value), &tokens))
        return json_field_expected(field, status, "a whole number%s >= %zu, or one such as 32K or 1M", unit,
                                   minimum);
    struct json_field number = {json_integer((json_int_t)tokens), field.source, field.path};
    bool ok = json_field_count(number, minimum, maximum, unit, value, status);
    json_decref(number.value);
    return ok;
}

bool json_field_number(struct json_field field, double minimum, double maximum, double *value,
                       struct status *status)
{
    if (!field.value)
        return true;
    double found = json_number_value(field.value);
    // Above 2^53 not every whole number is a double: the value used would differ from the one written.
    bool exact = !json_is_integer(field.value) || fabs(found) <= 0x1p53;
    if (json_is_number(field.value) && exact && found >= minimum && found <= maximum) {
        *value = found + 0.0; // -0 becomes 0: one value, one id
        return true;
    }
    if (!exact)
        return json_field_expected(field, status, "a whole number up to 2^53, or one with a decimal point");
    return json_field_expected(field, status, "a number from %.15g to %.15g", minimum, maximum);
}

bool json_field_bool(struct json_field field, bool *value, struct status *status)
{
    if (!field.value)
        return true;
    if (!json_is_boolean(field.value))
        return json_field_expected(field, status, "true or false");
    *value = json_is_true(field.value);
    return true;
}

bool json_field_text(struct json_field field, const char *expected, const char **value, struct status *status)
{
    if (!field.value)
        return true;
    if (!json_is_string(field.value) || json_string_length(field.value) == 0 || json_source_unheld(field.value))
        return json_field_expected(field, status, "%s", expected);
    *value = json_string_value(field.value);
    return true;
}

bool json_field_choice(struct json_field field, const struct names *names, const char *kind, size_t *value,
                       struct status *status)
{
    if (!field.value)
        return true;
    char hint[640], found[SHOWN];
    const char *name = json_source_unheld(field.value) ? NULL : json_string_value(field.value);
    size_t index = name ? names_find(names, name) : names->count;
    if (index < names->count) {
        *value = index;
        return true;
    }
    json_source_show(field.value, found, sizeof found);
    names_hint(names, name, name ? "known names" : "expected one of", hint, sizeof hint);
    return name ? json_field_fail(field, status, "unknown %s %s; %s", kind, found, hint)
                : json_field_fail(field, status, "%s; found %s", hint, found);
}

bool json_field_enum(struct json_field field, const char *const *names, const char *kind, int *value,
                     struct status *status)
{
    struct names known = {0};
    size_t index = (size_t)*value;
    names_add_all(&known, names);
    bool read = json_field_choice(field, &known, kind, &index, status);
    *value = (int)index;
    return read;
}
