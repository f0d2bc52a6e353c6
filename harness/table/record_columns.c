#define _GNU_SOURCE // asprintf
#include "harness/table/record_columns.h"
#include "harness/record/record_fields.h"
#include "harness/spec/trial_keys.h"
#include "harness/text/names.h"
#include "methods/method.h"
#include <string.h>

json_t *record_column_value(const struct record_column *column, const struct record *record)
{
    json_t *value = record_value(record, &column->path);
    bool empty = json_is_array(value) ? !json_array_size(value) : json_is_object(value) && !json_object_size(value);
    if (!empty)
        return value;
    json_decref(value);
    return json_null(); // as for absent fields
}

// --- available columns

static bool is_free(const struct record_field *field)
{
    return field->type == FIELD_ANY || (field->type == FIELD_OBJECT && !field->members);
}

static bool is_object(const struct record_field *field)
{
    return field->members && (field->type == FIELD_OBJECT || field->type == FIELD_TRIAL);
}

static json_t *keys_at(json_t *free_keys, const char *name)
{
    if (!json_object_get(free_keys, name))
        CHECK(json_object_set_new(free_keys, name, json_object()) == 0);
    return json_object_get(free_keys, name);
}

static void note_names(json_t *keys, const struct record_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        if (!json_object_get(keys, parts->names[i]))
            CHECK(json_object_set_new(keys, parts->names[i], json_true()) == 0);
}

// Notes a field's keys over all records; most equal the previous record's.
static void note_field(json_t *free_keys, const struct record_field *field, const char *name, size_t offset,
                       const struct results *results)
{
    const json_t *before = NULL;
    for (size_t i = 0; i < results->count; i++) {
        const void *value = (const char *)results->records[i] + offset;
        const struct record_parts *parts = value;
        const json_t *json = field->type == FIELD_MAP ? NULL : *(const json_t *const *)value;
        if (field->type == FIELD_MAP && parts->count)
            note_names(keys_at(free_keys, name), parts);
        else if (json != before && json_is_object(json))
            CHECK(json_object_update_missing(keys_at(free_keys, name), (json_t *)json) == 0);
        before = json;
    }
}

// offset: of the struct with the fields, in a record.
static void note_keys_of(json_t *free_keys, const struct record_field *fields, const char *parent, size_t offset,
                         const struct results *results)
{
    for (const struct record_field *field = fields; field->name; field++) {
        char name[120];
        snprintf(name, sizeof name, "%s%s%s", parent, field->name, is_object(field) ? "." : "");
        if (is_object(field) && !field->absent)
            note_keys_of(free_keys, field->members, name, offset + field->offset, results);
        else if (is_free(field) || field->type == FIELD_MAP)
            note_field(free_keys, field, name, offset + field->offset, results);
    }
}

// A field's position: its name, and the keys that lead to it.
struct position {
    char *name;
    json_t *path;
};

static struct position position_in(const struct position *parent, const char *key)
{
    struct position position = {.path = json_copy(parent->path)};
    CHECK(asprintf(&position.name, "%s%s%s", parent->name, *parent->name ? "." : "", key) >= 0);
    CHECK(json_array_append_new(position.path, json_string(key)) == 0);
    return position;
}

static void position_free(struct position *position)
{
    free(position->name);
    json_decref(position->path);
}

static void add_known(struct record_columns *columns, const struct position *position, const char *unit, bool flat)
{
    json_t *known = json_pack("[b, O, s?]", flat, position->path, unit);
    CHECK(known && json_object_set_new(columns->known, position->name, known) == 0);
}

static void add_fields(struct record_columns *columns, const struct record_field *fields,
                       const struct position *parent, bool flat);

// Adds a field's parts: members of an object, or the keys that records have there; for a map the members of each
// object.
static void add_parts(struct record_columns *columns, const struct record_field *field,
                      const struct position *parent, bool flat)
{
    const char *key;
    json_t *value;
    if (is_object(field))
        add_fields(columns, field->members, parent, flat);
    for (int i = 0; field->type == FIELD_TALLY && i < CATEGORY_COUNT; i++) {
        struct position position = position_in(parent, category_name((enum category)i));
        add_known(columns, &position, field->unit, flat);
        position_free(&position);
    }
    json_object_foreach(json_object_get(columns->free_keys, parent->name), key, value)
    {
        struct position position = position_in(parent, key);
        add_known(columns, &position, NULL, flat && field->type == FIELD_OBJECT);
        if (field->type == FIELD_MAP)
            add_fields(columns, field->members, &position, false);
        position_free(&position);
    }
}

// Objects are known, but their parts are the columns. Objects whose parts vary between records are tables of their
// own.
static void add_fields(struct record_columns *columns, const struct record_field *fields,
                       const struct position *parent, bool flat)
{
    for (const struct record_field *field = fields; field->name; field++) {
        struct position position = position_in(parent, field->name);
        bool found = json_object_get(columns->free_keys, position.name);
        bool parts = is_object(field) || field->type == FIELD_TALLY || (found && field->type == FIELD_OBJECT);
        bool table = field->type == FIELD_ROWS || field->type == FIELD_MAP || field->type == FIELD_ARRAY;
        add_known(columns, &position, field->unit, flat && !parts && !table);
        add_parts(columns, field, &position, flat);
        position_free(&position);
    }
}

static void add_missing(struct record_columns *columns, const struct position *parent, const char *key)
{
    struct position position = position_in(parent, key);
    if (!json_object_get(columns->known, position.name))
        add_known(columns, &position, NULL, false);
    position_free(&position);
}

static void add_key(struct record_columns *columns, const char *key, const char *member)
{
    struct position position = {.path = json_pack("[s, s]", "trial", key)};
    CHECK(asprintf(&position.name, "trial.%s", key) > 0 && position.path);
    add_missing(columns, &position, member);
    position_free(&position);
}

// Keys that all of these records omit, because of their method or without training, are still known.
static void add_keys(struct record_columns *columns)
{
    const struct option *option;
    add_key(columns, "method", "name");
    for (size_t i = 0; (option = methods_option(i)); i++)
        add_key(columns, "method", option->name);
    for (const struct trial_key *key = trial_keys; key->name; key++)
        for (const struct trial_key *member = key->members; member && member->name; member++)
            add_key(columns, key->name, member->name);
}

void record_columns_open(struct record_columns *columns, const struct results *results)
{
    *columns = (struct record_columns){.free_keys = json_object(), .known = json_object()};
    struct position root = {strdup(""), json_array()};
    CHECK(columns->free_keys && columns->known && root.name && root.path);
    note_keys_of(columns->free_keys, record_fields, "", 0, results);
    add_fields(columns, record_fields, &root, true);
    add_keys(columns);
    position_free(&root);
}

void record_columns_close(struct record_columns *columns)
{
    json_decref(columns->free_keys);
    json_decref(columns->known);
    *columns = (struct record_columns){0};
}

// --- requested columns

static struct record_column field_column(const struct record_columns *columns, const char *name, const char *path)
{
    const json_t *known = json_object_get(columns->known, path), *names = json_array_get(known, 1);
    const char *keys[RECORD_PATH_KEYS + 1] = {NULL};
    size_t count = json_array_size(names);
    CHECK(count <= RECORD_PATH_KEYS);
    for (size_t i = 0; i < count; i++)
        keys[i] = json_string_value(json_array_get(names, i));
    return (struct record_column){
        .name = name, .path = record_path_find(keys), .unit = json_string_value(json_array_get(known, 2))};
}

struct record_column *record_columns_flat(const struct record_columns *columns, size_t *count)
{
    struct record_column *flat = calloc(json_object_size(columns->known) + 1, sizeof *flat);
    const char *name;
    json_t *known;
    *count = 0;
    json_object_foreach(columns->known, name, known)
    {
        if (json_is_true(json_array_get(known, 0)))
            flat[(*count)++] = field_column(columns, name, name);
    }
    return flat;
}

// The field that a name such as "gradient.tensors.NAME.hash" of `longbp list fields` may stand for, or NULL.
static const char *example_of(const struct record_columns *columns, const char *name)
{
    const char *stands = strstr(name, ".NAME."), *key;
    json_t *value;
    json_object_foreach(columns->known, key, value)
    {
        size_t before = stands ? (size_t)(stands - name) + 1 : 0, after = stands ? strlen(stands + 5) : 0;
        if (stands && strlen(key) > before + after && strncmp(key, name, before) == 0 &&
            strcmp(key + strlen(key) - after, stands + 5) == 0)
            return key;
    }
    return NULL;
}

static bool unknown(const struct record_columns *columns, const char *asked_by, const char *name,
                    struct status *status)
{
    struct names names = {0};
    const char *key;
    json_t *value;
    for (const struct record_figure *figure = record_figures; figure->name; figure++)
        names_add(&names, figure->name);
    trial_key_names(&names, trial_keys);
    for (size_t i = 0; methods_option(i); i++)
        names_add(&names, methods_option(i)->name);
    json_object_foreach(columns->known, key, value)
    {
        if (names.count < NAMES_MAX)
            names_add(&names, key);
    }
    const char *nearest = names_nearest(&names, name), *example = example_of(columns, name);
    if (example)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: NAME in \"%.60s\" is a placeholder for a name in the records, as in \"%.200s\"",
                          asked_by, name, example);
    return status_set(status, STATUS_BAD_INPUT, "%s: no field \"%.60s\"; %s%.120s%s`longbp list fields` lists them",
                      asked_by, name, nearest ? "did you mean \"" : "", nearest ? nearest : "",
                      nearest ? "\"? " : "");
}

// A short name as in axes: a key of a trial, or an option of its method.
static bool find_short(const struct record_columns *columns, const char *name, struct record_column *column)
{
    static const char *const paths[] = {"trial.%.100s", "trial.method.%.100s"};
    char path[128];
    const struct trial_key *key = trial_key_named(name);
    bool method = key && key->type == KEY_METHOD;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        snprintf(path, sizeof path, paths[i], method ? "method.name" : name);
        if (json_object_get(columns->known, path)) {
            *column = field_column(columns, name, path);
            return true;
        }
    }
    return false;
}

bool record_columns_find(const struct record_columns *columns, const char *asked_by, const char *name,
                         struct record_column *column, struct status *status)
{
    const struct record_figure *figure = record_figure_find(name);
    if (figure) {
        *column = (struct record_column){.name = name, .figure = figure, .unit = figure->unit};
        return true;
    }
    if (json_object_get(columns->known, name)) {
        *column = field_column(columns, name, name);
        return true;
    }
    return find_short(columns, name, column) || unknown(columns, asked_by, name, status);
}
