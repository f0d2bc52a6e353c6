#include "harness/spec/trial_key_decode.h"
#include "harness/spec/trial_keys.h"
#include "harness/text/size.h"
#include <string.h>

// --- reading: starts from the default

static bool read_text(const struct trial_key *key, struct json_field field, char **value, struct status *status)
{
    char expected[160];
    const char *text = NULL;
    snprintf(expected, sizeof expected, "null or %s", key->values);
    if (!json_field_given(field))
        return true;
    if (!json_field_text(field, expected, &text, status))
        return false;
    *value = strdup(text);
    return true;
}

static bool read_size(struct json_field field, size_t *bytes, struct status *status)
{
    if (!json_field_given(field))
        return true;
    if (!json_is_string(field.value))
        return json_field_count(field, 1, JSON_INTEGER_MAX, " of bytes", bytes, status);
    return size_parse(json_string_value(field.value), bytes) ||
           json_field_expected(field, status, "%s", size_expected(json_string_value(field.value)));
}

static bool read_told(const struct trial_key *key, const struct trial *trial, struct json_field field,
                      size_t *value, struct status *status)
{
    struct status why = {0};
    if (!key->told(trial, value, &why))
        return json_field_fail(field, status, "%s", why.message);
    return (double)*value <= key->maximum || json_field_fail(field, status, "%s has %zu; the maximum is %.0f",
                                                             trial->data.path, *value, key->maximum);
}

static bool read_count(const struct trial_key *key, const struct trial *trial, struct json_field field,
                       size_t *value, struct status *status)
{
    char unit[64];
    *value = (size_t)key->initial;
    if (key->card_rows > 0 && trial->suited && trial_is_of_card(trial))
        *value = option_on_card(key->card_rows, *value, trial->batch);
    if (!field.value && key->told && !read_told(key, trial, field, value, status))
        return false;
    if (!field.value && (*value || !key->required))
        return true;
    trial_key_unit(key, unit, sizeof unit);
    if (!field.value)
        return json_field_fail(field, status, "missing; expected a whole number%s >= %.0f", unit, key->minimum);
    bool tokens = key->unit && strcmp(key->unit, "tokens") == 0;
    return (tokens ? json_field_tokens : json_field_count)(field, (size_t)key->minimum, (size_t)key->maximum, unit,
                                                           value, status);
}

static bool read_simple(const struct trial_key *key, struct trial *trial, struct json_field field,
                        struct status *status);

static bool read_members(const struct trial_key *key, struct trial *trial, struct json_field field,
                         struct status *status)
{
    struct names known = {0};
    trial_key_names(&known, key->members);
    if (field.value && !json_field_object(field, &known, key->name, status))
        return false;
    for (const struct trial_key *member = key->members; member->name; member++)
        if (!read_simple(member, trial, json_field_get(field, member->name), status))
            return false;
    if (key->settle)
        key->settle(trial);
    return true;
}

static bool read_simple(const struct trial_key *key, struct trial *trial, struct json_field field,
                        struct status *status)
{
    void *value = (char *)trial + key->offset;
    switch (key->type) {
    case KEY_BOOL:
        *(bool *)value = key->initial > 0;
        return json_field_bool(field, value, status);
    case KEY_COUNT:
        return read_count(key, trial, field, value, status);
    case KEY_NUMBER:
        *(double *)value = key->initial;
        return json_field_number(field, key->minimum, key->maximum, value, status);
    case KEY_CHOICE:
        *(int *)value = (int)key->initial;
        return json_field_enum(field, key->choices, key->kind, value, status);
    case KEY_TEXT:
        return read_text(key, field, value, status);
    case KEY_SIZE:
        return read_size(field, value, status);
    case KEY_OBJECT:
        return read_members(key, trial, field, status);
    default:
        CHECK(!"a key that reads itself");
    }
}

// --- writing

static json_t *simple_json(const struct trial_key *key, const struct trial *trial)
{
    const void *value = (const char *)trial + key->offset;
    json_t *object;
    switch (key->type) {
    case KEY_BOOL:
        return json_boolean(*(const bool *)value);
    case KEY_COUNT:
        return json_integer((json_int_t) * (const size_t *)value);
    case KEY_NUMBER:
        return json_real(*(const double *)value);
    case KEY_CHOICE:
        return json_string(key->choices[*(const int *)value]);
    case KEY_TEXT:
        return *(char *const *)value ? json_string(*(char *const *)value) : json_null();
    case KEY_SIZE:
        return *(const size_t *)value ? json_integer((json_int_t) * (const size_t *)value) : json_null();
    case KEY_OBJECT:
        object = json_object();
        for (const struct trial_key *member = key->members; member->name; member++)
            json_object_set_new(object, member->name, simple_json(member, trial));
        return object;
    default:
        CHECK(!"a key that writes itself");
    }
}

json_t *trial_key_decode(const struct trial_key *key, struct trial *trial, struct json_field field,
                         struct status *status)
{
    if (key->decode)
        return key->decode(trial, field, status);
    if (key->type == KEY_OBJECT && key->null && !json_field_given(field))
        return json_null();
    return read_simple(key, trial, field, status) ? simple_json(key, trial) : NULL;
}

// --- records

static json_t *default_of(const struct trial_key *key)
{
    struct trial scratch = {.objective = objectives[0]};
    struct status none = {0};
    bool own = key->type == KEY_OWN || key->type == KEY_METHOD;
    if (key->type == KEY_OWN && key->telling && key->standard) // the objective
        return json_string(key->standard);
    if (key->required || key->told || (own && !key->null))
        return NULL;
    return own ? json_null() : trial_key_decode(key, &scratch, (struct json_field){0}, &none);
}

// Default members of an object, even if its default is no object.
static json_t *default_members(const struct trial_key *key)
{
    struct trial scratch = {.objective = objectives[0]};
    struct status none = {0};
    return read_simple(key, &scratch, (struct json_field){0}, &none) ? simple_json(key, &scratch) : NULL;
}

json_t *trial_key_recorded(const struct trial_key *key, const json_t *trial)
{
    json_t *value = json_object_get(trial, key->name);
    size_t members = 0;
    while (key->members && key->members[members].name)
        members++;
    if (value && (!json_is_object(value) || json_object_size(value) >= members))
        return json_incref(value);
    json_t *absent = value && key->type == KEY_OBJECT ? default_members(key) : default_of(key);
    if (!value)
        return absent;
    json_t *whole = json_copy(value);
    if (json_is_object(absent))
        CHECK(json_object_update_missing(whole, absent) == 0);
    json_decref(absent);
    return whole;
}

json_t *trial_recorded(const json_t *trial)
{
    json_t *whole = json_copy((json_t *)trial);
    for (const struct trial_key *key = trial_keys; key->name; key++) {
        json_t *value = trial_key_recorded(key, trial);
        if (value && value != json_object_get(whole, key->name))
            CHECK(json_object_set(whole, key->name, value) == 0);
        json_decref(value);
    }
    return whole;
}
