#define _GNU_SOURCE // asprintf
#include "harness/results/export.h"
#include "harness/files/names.h"
#include "harness/results/record_fields.h"
#include "harness/results/result_file.h"
#include "kernels/base/arena.h"
#include <string.h>
#include <sys/stat.h>

struct column {
    const char *name;   // "trial.method.chunk"
    const json_t *path; // ["trial", "method", "chunk"]: a key may have dots itself
};

struct exporter {
    FILE *stream;
    enum export_format format;
    json_t *free_keys; // {"trial.method": {"name": ..., ...}}: the keys of objects without members, in any record
    json_t *known;     // {name: [whether it is a column of its own accord, path]}, in the table's order
    struct column *columns;
    size_t column_count, rows;
};

// --- values

static const json_t *value_at(const json_t *object, const struct column *column)
{
    for (size_t i = 0; i < json_array_size(column->path); i++)
        object = json_object_get(object, json_string_value(json_array_get(column->path, i)));
    return object;
}

static void write_quoted(const char *text, FILE *stream)
{
    bool plain = *text && !strpbrk(text, "\",\r\n");
    if (plain) {
        fputs(text, stream);
        return;
    }
    putc('"', stream);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', stream);
        putc(*text, stream);
    }
    putc('"', stream);
}

static void write_cell(const json_t *value, FILE *stream)
{
    if (!value || json_is_null(value))
        return;
    char *text = json_is_string(value) ? strdup(json_string_value(value))
                                       : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    CHECK(text);
    write_quoted(text, stream);
    free(text);
}

// --- rows

static void write_csv_header(const struct exporter *exporter)
{
    for (size_t i = 0; i < exporter->column_count; i++) {
        fputs(i ? "," : "", exporter->stream);
        write_quoted(exporter->columns[i].name, exporter->stream);
    }
    fputs("\r\n", exporter->stream);
}

static void write_csv_row(const struct exporter *exporter, const json_t *record)
{
    for (size_t i = 0; i < exporter->column_count; i++) {
        fputs(i ? "," : "", exporter->stream);
        write_cell(value_at(record, &exporter->columns[i]), exporter->stream);
    }
    fputs("\r\n", exporter->stream);
}

static void write_json_row(const struct exporter *exporter, const json_t *record)
{
    json_t *row = json_object();
    for (size_t i = 0; i < exporter->column_count; i++) {
        const json_t *value = value_at(record, &exporter->columns[i]);
        CHECK(json_object_set_new(row, exporter->columns[i].name,
                                  value ? json_incref((json_t *)value) : json_null()) == 0);
    }
    fputs(exporter->rows ? ",\n" : "\n", exporter->stream);
    json_dumpf(row, exporter->stream, JSON_COMPACT);
    json_decref(row);
}

static void write_row(void *visitor, const json_t *record)
{
    struct exporter *exporter = visitor;
    if (exporter->format == EXPORT_CSV)
        write_csv_row(exporter, record);
    else
        write_json_row(exporter, record);
    exporter->rows++;
}

// --- columns

static bool is_free(const struct record_field *field)
{
    return field->type == FIELD_ANY || (field->type == FIELD_OBJECT && !field->members);
}

static bool is_object(const struct record_field *field)
{
    return field->members && (field->type == FIELD_OBJECT || field->type == FIELD_TRIAL);
}

static void note_keys_of(json_t *free_keys, const struct record_field *fields, const char *parent,
                         const json_t *object)
{
    for (const struct record_field *field = fields; field->name; field++) {
        char name[120], inner[121];
        const json_t *value = json_object_get(object, field->name);
        snprintf(name, sizeof name, "%s%s", parent, field->name);
        snprintf(inner, sizeof inner, "%s.", name);
        if (is_object(field))
            note_keys_of(free_keys, field->members, inner, value);
        if (!(is_free(field) || field->type == FIELD_MAP) || !json_is_object(value))
            continue;
        if (!json_object_get(free_keys, name))
            json_object_set_new(free_keys, name, json_object());
        json_object_update_missing(json_object_get(free_keys, name), (json_t *)value);
    }
}

static void note_keys(void *visitor, const json_t *record)
{
    struct exporter *exporter = visitor;
    note_keys_of(exporter->free_keys, record_fields, "", record);
}

// Where a field is: its name, and the keys that lead to it.
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

static void add_known(struct exporter *exporter, const struct position *position, bool column)
{
    CHECK(json_object_set_new(exporter->known, position->name, json_pack("[b, O]", column, position->path)) == 0);
}

static void add_fields(struct exporter *exporter, const struct record_field *fields, const struct position *parent,
                       bool columns);

// What is in a field: of an object its members or, where it has none, the keys that records have there; of a map
// the members of each of its objects.
static void add_parts(struct exporter *exporter, const struct record_field *field, const struct position *parent,
                      bool columns)
{
    const char *key;
    json_t *value;
    if (is_object(field))
        add_fields(exporter, field->members, parent, columns);
    for (int i = 0; field->type == FIELD_TALLY && i < CATEGORY_COUNT; i++) {
        struct position position = position_in(parent, category_name((enum category)i));
        add_known(exporter, &position, columns);
        position_free(&position);
    }
    json_object_foreach(json_object_get(exporter->free_keys, parent->name), key, value)
    {
        struct position position = position_in(parent, key);
        add_known(exporter, &position, columns && field->type == FIELD_OBJECT);
        if (field->type == FIELD_MAP)
            add_fields(exporter, field->members, &position, false);
        position_free(&position);
    }
}

// An object is known, but its parts are the columns. What has no parts that are the same in all records is a table
// of its own.
static void add_fields(struct exporter *exporter, const struct record_field *fields, const struct position *parent,
                       bool columns)
{
    for (const struct record_field *field = fields; field->name; field++) {
        struct position position = position_in(parent, field->name);
        bool found = json_object_get(exporter->free_keys, position.name);
        bool parts = is_object(field) || field->type == FIELD_TALLY || (found && field->type == FIELD_OBJECT);
        bool table = field->type == FIELD_ROWS || field->type == FIELD_MAP || field->type == FIELD_ARRAY;
        add_known(exporter, &position, columns && !parts && !table);
        add_parts(exporter, field, &position, columns);
        position_free(&position);
    }
}

static void add_column(struct exporter *exporter, const char *name)
{
    exporter->columns = realloc(exporter->columns, (exporter->column_count + 1) * sizeof *exporter->columns);
    CHECK(exporter->columns);
    const json_t *path = json_array_get(json_object_get(exporter->known, name), 1);
    exporter->columns[exporter->column_count++] = (struct column){name, path};
}

// "gradient.tensors.NAME.hash", as `longbp list fields` has it: a field that it may stand for, or NULL.
static const char *example_of(const struct exporter *exporter, const char *name)
{
    const char *stands = strstr(name, ".NAME."), *key;
    json_t *value;
    json_object_foreach(exporter->known, key, value)
    {
        size_t before = stands ? (size_t)(stands - name) + 1 : 0, behind = stands ? strlen(stands + 5) : 0;
        if (stands && strlen(key) > before + behind && strncmp(key, name, before) == 0 &&
            strcmp(key + strlen(key) - behind, stands + 5) == 0)
            return key;
    }
    return NULL;
}

static bool unknown_field(const struct exporter *exporter, const char *name, struct status *status)
{
    struct names names = {0};
    const char *key;
    json_t *value;
    json_object_foreach(exporter->known, key, value)
    {
        if (names.count < NAMES_MAX)
            names_add(&names, key);
    }
    const char *nearest = names_nearest(&names, name), *example = example_of(exporter, name);
    if (example)
        return status_set(status, STATUS_BAD_INPUT,
                          "--fields: NAME in \"%.60s\" stands for a name in the records, as in \"%.200s\"", name,
                          example);
    return status_set(status, STATUS_BAD_INPUT,
                      "--fields: no field \"%.60s\"%s%.120s%s; `longbp list fields` lists them", name,
                      nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

static bool is_chosen(const struct exporter *exporter, const char *name)
{
    bool chosen = false;
    for (size_t i = 0; i < exporter->column_count; i++)
        chosen |= strcmp(exporter->columns[i].name, name) == 0;
    return chosen;
}

static bool choose_columns(struct exporter *exporter, const char *fields, struct status *status)
{
    const char *key;
    json_t *known;
    json_object_foreach(exporter->known, key, known)
    {
        if (!fields && json_is_true(json_array_get(known, 0)))
            add_column(exporter, key);
    }
    char *copy = fields ? strdup(fields) : NULL, *rest = copy, *item;
    while (status->code == STATUS_OK && (item = strsep(&rest, ","))) {
        void *found = json_object_iter_at(exporter->known, item);
        if (!found)
            unknown_field(exporter, item, status);
        else if (is_chosen(exporter, item))
            status_set(status, STATUS_BAD_INPUT, "--fields: \"%.60s\" is named twice", item);
        else
            add_column(exporter, json_object_iter_key(found));
    }
    free(copy);
    return status->code == STATUS_OK;
}

// --- files

static bool scan(const struct export_request *request, result_visit *visit, struct exporter *exporter, bool warn,
                 struct status *status)
{
    bool fine = true;
    for (size_t i = 0; fine && i < request->path_count; i++) {
        struct result_file file;
        fine = result_file_scan(&file, request->paths[i], visit, exporter, status);
        if (warn)
            result_file_warn(&file);
        result_file_close(&file);
    }
    return fine;
}

// What cannot be read twice would be empty the second time.
static bool are_files(const struct export_request *request, struct status *status)
{
    for (size_t i = 0; i < request->path_count; i++) {
        struct stat file;
        if (stat(request->paths[i], &file) == 0 && !S_ISREG(file.st_mode) && !S_ISDIR(file.st_mode))
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: not a regular file, and it must be read twice; write it to a file first",
                              request->paths[i]);
    }
    return true;
}

static bool write_rows(const struct export_request *request, struct exporter *exporter, struct status *status)
{
    if (exporter->format == EXPORT_CSV)
        write_csv_header(exporter);
    else
        fputs("[", exporter->stream);
    bool fine = scan(request, write_row, exporter, false, status);
    if (exporter->format == EXPORT_JSON)
        fputs("\n]\n", exporter->stream);
    return fine;
}

bool export_write(const struct export_request *request, FILE *stream, struct status *status)
{
    struct exporter exporter = {
        .stream = stream, .format = request->format, .free_keys = json_object(), .known = json_object()};
    CHECK(exporter.free_keys && exporter.known);
    bool fine = are_files(request, status) && scan(request, note_keys, &exporter, true, status);
    struct position root = {strdup(""), json_array()};
    if (fine)
        add_fields(&exporter, record_fields, &root, true);
    position_free(&root);
    fine = fine && choose_columns(&exporter, request->fields, status) && write_rows(request, &exporter, status);
    json_decref(exporter.free_keys);
    json_decref(exporter.known);
    free(exporter.columns);
    return fine;
}
