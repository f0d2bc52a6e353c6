#include "harness/record/recorded_key.h"
#include "harness/record/record_fields.h"
#include "harness/record/record_json.h"
#include "harness/spec/trial_key_decode.h"
#include <math.h>
#include <string.h>

json_t *recorded_key_value(const struct trial_key *key, const struct record *record)
{
    const struct record_field *field = record_trial_field(key);
    const void *at = (const char *)&record->trial + field->offset;
    json_t *value = field->members ? NULL : record_field_json(field, at);
    if (value && !json_is_null(value))
        return value;
    // Only the full trial distinguishes null from an unknown key, and an object from an older one with fewer
    // members. Counts have their value above.
    json_decref(value);
    return trial_key_recorded(key, record_trial_rest(&record->trial));
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

// a, b: storage of the field's value in each trial.
static bool alike(const struct record_field *field, const void *a, const void *b)
{
    double x, y;
    bool same = true;
    switch (field->type) {
    case FIELD_BOOL:
        return *(const int *)a == *(const int *)b;
    case FIELD_STRING:
        return same_text(*(const char *const *)a, *(const char *const *)b);
    case FIELD_COUNT:
    case FIELD_SIZE:
        x = *(const double *)a;
        y = *(const double *)b;
        return x == y || (isnan(x) && isnan(y));
    case FIELD_ANY:
    case FIELD_OBJECT:
        if (!field->members)
            return *(const json_t *const *)a == *(const json_t *const *)b;
        a = record_field_members(field, a);
        b = record_field_members(field, b);
        for (const struct record_field *member = field->members; same && member->name; member++)
            same = alike(member, (const char *)a + member->offset, (const char *)b + member->offset);
        return same && *(const bool *)a == *(const bool *)b;
    default:
        return false;
    }
}

bool recorded_key_alike(const struct trial_key *key, const struct record *a, const struct record *b)
{
    const struct record_field *field = record_trial_field(key);
    return alike(field, (const char *)&a->trial + field->offset, (const char *)&b->trial + field->offset);
}

// Tells whether two values are equal in all members that both have: earlier versions had fewer.
static bool agree(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *member;
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (!json_is_object(a) || !json_is_object(b))
        return json_equal(a, b);
    bool same = true;
    json_object_foreach((json_t *)a, name, member)
    {
        const json_t *other = json_object_get(b, name);
        same &= !other || agree(member, other);
    }
    return same;
}

const char *recorded_key_differing(const struct record *a, const struct record *b)
{
    const char *differing = NULL;
    for (const struct trial_key *key = trial_keys; !differing && key->name; key++) {
        if (recorded_key_alike(key, a, b))
            continue;
        json_t *one = recorded_key_value(key, a), *other = recorded_key_value(key, b);
        differing = one && other && !agree(one, other) ? key->name : NULL;
        json_decref(one);
        json_decref(other);
    }
    return differing;
}
