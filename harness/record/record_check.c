#include "harness/record/record_check.h"
#include "harness/record/record.h"
#include "harness/record/record_fields.h"
#include "harness/text/names.h"
#include "kernels/base/arena.h"
#include <string.h>

static bool is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool is_hash(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
}

static bool has_type(const json_t *value, enum field_type type)
{
    switch (type) {
    case FIELD_ANY:
        return true;
    case FIELD_BOOL:
        return json_is_boolean(value);
    case FIELD_STRING:
    case FIELD_STATUS:
        return json_is_string(value);
    case FIELD_COUNT:
        return is_count(value);
    case FIELD_SIZE:
    case FIELD_WHOLE:
        return json_is_number(value) && json_number_value(value) >= 0;
    case FIELD_POSITIVE:
        return json_is_number(value) && json_number_value(value) > 0;
    case FIELD_NUMBER:
        return json_is_number(value);
    case FIELD_ARRAY:
    case FIELD_ROWS:
        return json_is_array(value);
    case FIELD_HASH:
        return is_hash(value);
    case FIELD_OBJECT:
    case FIELD_TRIAL:
    case FIELD_MAP:
    case FIELD_TALLY:
        return json_is_object(value);
    }
    return false;
}

static bool fits(const json_t *value, const struct record_field *field)
{
    if (!field->list)
        return has_type(value, field->type);
    bool fine = json_is_array(value);
    for (size_t i = 0; fine && i < json_array_size(value); i++)
        fine = has_type(json_array_get(value, i), field->type);
    return fine;
}

static bool check_known(const json_t *object, const struct names *known, const char *where, const char *parent,
                        struct status *status)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (names_find(known, key) < known->count)
            continue;
        // Null is what an earlier version wrote of a trial's key that this one has no more.
        if (!strncmp(parent, "trial.", 6) && json_is_null(value))
            continue;
        char hint[640];
        names_hint(known, key, "known keys", hint, sizeof hint);
        return status_set(status, STATUS_BAD_INPUT, "%s: unknown key \"%s%.40s\"; %s", where, parent, key, hint);
    }
    return true;
}

static bool check_object(const json_t *object, const struct record_field *fields, const char *where,
                         const char *parent, struct status *status);

// Of an object or an array of objects, each checked under its name or its number.
static bool check_each(const json_t *value, const struct record_field *fields, const char *where,
                       const char *parent, struct status *status)
{
    char inner[240];
    const char *name;
    size_t i;
    json_t *object;
    json_object_foreach((json_t *)value, name, object)
    {
        snprintf(inner, sizeof inner, "%s%.112s.", parent, name);
        if (!check_object(object, fields, where, inner, status))
            return false;
    }
    json_array_foreach(value, i, object)
    {
        snprintf(inner, sizeof inner, "%s%zu.", parent, i);
        if (!check_object(object, fields, where, inner, status))
            return false;
    }
    return true;
}

static bool check_tally(const json_t *tally, const char *where, const char *parent, struct status *status)
{
    struct record_field fields[CATEGORY_COUNT + 1] = {0};
    for (int i = 0; i < CATEGORY_COUNT; i++)
        fields[i] = (struct record_field){.name = category_name((enum category)i), .type = FIELD_COUNT};
    return check_object(tally, fields, where, parent, status);
}

static bool check_members(const json_t *value, const struct record_field *field, const char *where,
                          const char *parent, struct status *status)
{
    if (field->type == FIELD_TALLY)
        return check_tally(value, where, parent, status);
    if (!field->members)
        return true;
    bool one = field->type == FIELD_OBJECT || field->type == FIELD_TRIAL;
    return (one ? check_object : check_each)(value, field->members, where, parent, status);
}

// parent: "" or the path of the object, such as "trial.measure.".
static bool check_object(const json_t *object, const struct record_field *fields, const char *where,
                         const char *parent, struct status *status)
{
    struct names known = {0};
    if (!json_is_object(object))
        return status_set(status, STATUS_BAD_INPUT, "%s: \"%.*s\" is not an object", where, (int)strlen(parent) - 1,
                          parent);
    for (const struct record_field *field = fields; field->name; field++) {
        const json_t *value = json_object_get(object, field->name);
        names_add(&known, field->name);
        if (!value && field->required)
            return status_set(status, STATUS_BAD_INPUT, "%s: not a record: \"%s%s\" is missing", where, parent,
                              field->name);
        if (!value || (json_is_null(value) && !field->required))
            continue;
        if (!fits(value, field))
            return status_set(status, STATUS_BAD_INPUT, "%s: \"%s%s\" is not %s", where, parent, field->name,
                              field_type_name(field));
        char inner[240];
        snprintf(inner, sizeof inner, "%s%s.", parent, field->name);
        if (!check_members(value, field, where, inner, status))
            return false;
    }
    return check_known(object, &known, where, parent, status);
}

// What no trial has, and what shows its results relies on.
static bool check_trial(const json_t *record, const char *where, struct status *status)
{
    static const char *const counts[] = {"batch", "context"};
    const json_t *trial = json_object_get(record, "trial");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (json_integer_value(json_object_get(trial, counts[i])) < 1)
            return status_set(status, STATUS_BAD_INPUT, "%s: \"trial.%s\" is not a whole number >= 1", where,
                              counts[i]);
    return true;
}

static bool check_round(const json_t *record, const char *where, struct status *status)
{
    const json_t *round = json_object_get(record, "round");
    double number = json_number_value(round);
    return !json_is_number(round) || (number >= 1 && number <= RECORD_ROUNDS_MAX) ||
           status_set(status, STATUS_BAD_INPUT, "%s: \"round\" is not a whole number from 1 to %d", where,
                      RECORD_ROUNDS_MAX);
}

// Each sample has its number of columns; a plan has the columns alone. And each has its slowdown, if any has.
static bool check_samples(const json_t *record, const char *where, struct status *status)
{
    static const char *const lists[] = {"sample_columns", "slowdown"};
    size_t times = json_array_size(json_object_get(record, "samples_ms"));
    for (size_t i = 0; times && i < sizeof lists / sizeof *lists; i++) {
        const json_t *list = json_object_get(record, lists[i]);
        if (json_is_array(list) && json_array_size(list) != times)
            return status_set(status, STATUS_BAD_INPUT, "%s: \"%s\" are %zu, but \"samples_ms\" %zu", where,
                              lists[i], json_array_size(list), times);
    }
    return true;
}

bool record_check_method(const json_t *method)
{
    const char *name = json_string_value(json_object_get(method, "name"));
    if (!name || !*name)
        return false;
    while (*name && !control_character(name))
        name++;
    return !*name;
}

bool record_check(const json_t *record, const char *where, struct status *status)
{
    if (!json_is_object(record))
        return status_set(status, STATUS_BAD_INPUT, "%s: not a record: a JSON object was expected", where);
    // The version first: a record of another version may differ in anything else.
    const json_t *schema = json_object_get(record, "schema");
    if (!json_is_integer(schema))
        return status_set(status, STATUS_BAD_INPUT, "%s: not a record: \"schema\" is missing", where);
    if (json_integer_value(schema) != RECORD_SCHEMA)
        return status_set(status, STATUS_BAD_INPUT, "%s: schema %lld, but this program reads schema %d%s", where,
                          (long long)json_integer_value(schema), RECORD_SCHEMA,
                          json_integer_value(schema) < RECORD_SCHEMA ? "; `longbp convert` makes one of the other"
                                                                     : "");
    if (!check_object(record, record_fields, where, "", status) || !check_trial(record, where, status) ||
        !check_round(record, where, status) || !check_samples(record, where, status))
        return false;
    const json_t *method = json_object_get(json_object_get(record, "trial"), "method");
    if (!record_check_method(method))
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: not a record: \"trial.method.name\" is missing or empty, or has control characters",
                          where);
    const char *id = json_string_value(json_object_get(record, "id"));
    if (strlen(id) != 32 || strspn(id, "0123456789abcdef") != 32)
        return status_set(status, STATUS_BAD_INPUT, "%s: \"id\" is \"%.40s\", not 32 hexadecimal digits", where,
                          id);
    const char *name = json_string_value(json_object_get(record, "status"));
    return record_status_from_name(name) != RECORD_STATUS_COUNT ||
           status_set(status, STATUS_BAD_INPUT,
                      "%s: \"status\" is \"%.40s\", not ok, oom, timeout, crash, unsupported or failed", where,
                      name);
}
