#include "harness/record/record_json.h"
#include "harness/json/interned.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

// owner: the struct that contains the fields.
static json_t *fields_json(const struct record_field *fields, const void *owner);
static void free_fields(const struct record_field *fields, void *owner);

struct number_list number_list_make(size_t count)
{
    struct number_list list = {count, count ? malloc(count * sizeof *list.items) : NULL};
    CHECK(list.items || !count);
    return list;
}

struct number_list number_list_copy(const double *values, size_t count)
{
    struct number_list list = number_list_make(count);
    for (size_t i = 0; i < count; i++)
        list.items[i] = values[i];
    return list;
}

static void *part_at(const struct record_field *field, const struct record_parts *parts, size_t i)
{
    return (char *)parts->items + i * field->part_bytes;
}

void record_clear(struct record *record)
{
    record_fields_clear(record_fields, record);
    record->rounds = (struct record_rounds){0};
}

const json_t *record_trial_rest(const struct record_trial *trial)
{
    return trial->rest ? interned_item_json(trial->rest) : trial->json;
}

static const struct record_field *trial_fields(void)
{
    const struct record_field *field = record_fields;
    while (field->type != FIELD_TRIAL)
        field++;
    return field->members;
}

json_t *record_trial_json(const struct record_trial *trial)
{
    if (!trial->rest)
        return json_incref((json_t *)trial->json);
    json_t *whole = json_copy((json_t *)record_trial_rest(trial));
    for (const struct record_field *field = trial_fields(); field->name; field++) {
        const void *value = (const char *)trial + field->offset;
        const double *count = value;
        if (field->type == FIELD_COUNT && *count < RECORD_EXACT_MAX) // false for NaN
            CHECK(json_object_set_new(whole, field->name, json_integer((json_int_t)*count)) == 0);
    }
    return whole;
}

static void set(json_t *object, const char *key, json_t *value)
{
    CHECK(value && json_object_set_new(object, key, value) == 0);
}

json_t *record_number_json(enum field_type type, double value)
{
    bool whole = fabs(value) < RECORD_EXACT_MAX && value == floor(value);
    if (!isfinite(value))
        return json_null();
    bool integer = type == FIELD_COUNT ? value < 0x1p63 : type == FIELD_WHOLE && whole;
    return integer ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *list_json(const struct record_field *field, const struct number_list *list)
{
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++)
        CHECK(json_array_append_new(array, record_number_json(field->type, list->items[i])) == 0);
    return array;
}

static json_t *parts_json(const struct record_field *field, const struct record_parts *parts)
{
    bool named = field->type == FIELD_MAP;
    json_t *all = named ? json_object() : json_array();
    for (size_t i = 0; i < parts->count; i++) {
        const void *part = part_at(field, parts, i);
        json_t *json = fields_json(field->members, part);
        if (named)
            set(all, parts->names[i], json);
        else
            CHECK(json_array_append_new(all, json) == 0);
    }
    return all;
}

// Omits absent categories; null if all are absent.
static json_t *tally_json(const double *counts)
{
    json_t *object = json_object();
    for (int i = 0; i < CATEGORY_COUNT; i++)
        if (isfinite(counts[i]))
            set(object, category_name((enum category)i), record_number_json(FIELD_COUNT, counts[i]));
    if (json_object_size(object) > 0)
        return object;
    json_decref(object);
    return json_null();
}

static json_t *borrowed(const json_t *json)
{
    return json ? json_incref((json_t *)json) : json_null();
}

json_t *record_field_json(const struct record_field *field, const void *value)
{
    json_t *whole;
    switch (field->type) {
    case FIELD_BOOL:
        return *(const int *)value < 0 ? json_null() : json_boolean(*(const int *)value);
    case FIELD_STRING:
        return *(const char *const *)value ? record_text(*(const char *const *)value) : json_null();
    case FIELD_STATUS:
        return json_string(record_status_name(*(const enum record_status *)value));
    case FIELD_HASH:
        return *(const uint64_t *)value ? json_sprintf("%016" PRIx64, *(const uint64_t *)value) : json_null();
    case FIELD_ANY:
    case FIELD_ARRAY:
        return borrowed(*(const json_t *const *)value);
    case FIELD_COUNT:
    case FIELD_SIZE:
    case FIELD_WHOLE:
    case FIELD_POSITIVE:
    case FIELD_NUMBER:
        if (!field->list)
            return record_number_json(field->type, *(const double *)value);
        if (((const struct number_list *)value)->count == 0 && field->none != NONE_EMPTY)
            return field->none == NONE_NULL ? json_null() : NULL;
        return list_json(field, value);
    case FIELD_TRIAL:
        whole = record_trial_json(value);
        return whole ? whole : json_null();
    case FIELD_OBJECT:
        if (!field->members)
            return borrowed(*(const json_t *const *)value);
        value = record_field_members(field, value);
        return *(const bool *)value ? fields_json(field->members, value) : json_null();
    case FIELD_ROWS:
    case FIELD_MAP:
        return parts_json(field, value);
    case FIELD_TALLY:
        return tally_json(*(const double *const *)value);
    }
    return NULL;
}

static json_t *fields_json(const struct record_field *fields, const void *owner)
{
    json_t *object = json_object();
    for (const struct record_field *field = fields; field->name; field++) {
        json_t *value = record_field_json(field, (const char *)owner + field->offset);
        if (value)
            set(object, field->name, value);
    }
    return object;
}

json_t *record_json(const struct record *record)
{
    return fields_json(record_fields, record);
}

// --- parts of a record

// The value at the keys; NULL: none. A new reference.
static json_t *value_in(const json_t *json, const char *const *keys)
{
    for (; *keys; keys++)
        json = json_object_get(json, *keys);
    return json_incref((json_t *)json);
}

const struct record_field *record_field_find(const struct record_field *fields, const char *name)
{
    while (fields && fields->name && strcmp(fields->name, name) != 0)
        fields++;
    return fields && fields->name ? fields : NULL;
}

struct record_path record_path_find(const char *const *keys)
{
    struct record_path path = {0};
    const struct record_field *fields = record_fields, *parent = NULL;
    for (size_t i = 0; keys[i]; i++) {
        CHECK(i < RECORD_PATH_KEYS);
        path.keys[i] = keys[i];
        if (parent && parent->type == FIELD_MAP) { // the key is a part's name
            parent = NULL;
            continue;
        }
        parent = path.fields[i] = record_field_find(fields, keys[i]);
        fields = parent ? parent->members : NULL;
    }
    return path;
}

static json_t *value_at(const struct record_path *path, size_t depth, const void *owner);

static json_t *value_in_map(const struct record_path *path, size_t depth, const struct record_parts *parts)
{
    const struct record_field *map = path->fields[depth - 1];
    for (size_t i = 0; i < parts->count; i++) {
        const void *part = part_at(map, parts, i);
        if (strcmp(parts->names[i], path->keys[depth]) == 0)
            return path->keys[depth + 1] ? value_at(path, depth + 1, part) : fields_json(map->members, part);
    }
    return NULL;
}

static json_t *value_in_tally(const double *counts, const char *const *keys)
{
    for (int i = 0; !keys[1] && i < CATEGORY_COUNT; i++)
        if (strcmp(category_name((enum category)i), *keys) == 0)
            return record_number_json(FIELD_COUNT, counts[i]);
    return NULL;
}

// owner: the struct that contains the field of that depth.
static json_t *value_at(const struct record_path *path, size_t depth, const void *owner)
{
    const struct record_field *field = path->fields[depth];
    if (!field)
        return NULL;
    const char *const *keys = path->keys + depth + 1;
    const void *value = (const char *)owner + field->offset;
    if (!*keys)
        return record_field_json(field, value);
    if (field->type == FIELD_TALLY)
        return value_in_tally(*(const double *const *)value, keys);
    if (field->type == FIELD_MAP)
        return value_in_map(path, depth + 1, value);
    if (field->type == FIELD_ROWS)
        return NULL;
    if (field->members) {
        value = record_field_members(field, value);
        return *(const bool *)value ? value_at(path, depth + 1, value) : NULL;
    }
    bool is_json = field->type == FIELD_ANY || field->type == FIELD_OBJECT;
    return is_json ? value_in(*(const json_t *const *)value, keys) : NULL;
}

json_t *record_value(const struct record *record, const struct record_path *path)
{
    json_t *value = value_at(path, 0, record);
    return value ? value : json_null();
}

// --- release

static void free_apart(const struct record_field *field, void *value)
{
    void *part = *(void **)value;
    if (!part || part == field->absent) // a zeroed record has no part
        return;
    if (field->members)
        free_fields(field->members, part);
    free(part);
}

static void free_fields(const struct record_field *fields, void *owner)
{
    for (const struct record_field *field = fields; field->name; field++) {
        void *value = (char *)owner + field->offset;
        struct record_parts *parts = value;
        if (field->list)
            free(((struct number_list *)value)->items);
        if (field->absent) {
            free_apart(field, value);
            continue;
        }
        if (!field->members)
            continue;
        if (field->type == FIELD_OBJECT || field->type == FIELD_TRIAL) {
            free_fields(field->members, value);
            continue;
        }
        for (size_t i = 0; i < parts->count; i++)
            free_fields(field->members, part_at(field, parts, i));
        free(parts->items);
        free((void *)parts->names);
    }
}

void record_free(struct record *record)
{
    free_fields(record_fields, record);
    record_clear(record);
}
