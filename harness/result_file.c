#include "harness/result_file.h"
#include "harness/record.h"
#include <errno.h>
#include <string.h>

enum field_type { FIELD_STRING, FIELD_COUNT, FIELD_NUMBER, FIELD_OBJECT, FIELD_ARRAY };

struct field {
    const char *name;
    enum field_type type;
    bool required; // of every record, whatever its status; others may be null or absent
};

static const struct field fields[] = {
    {"id", FIELD_STRING, true},
    {"experiment", FIELD_STRING, true},
    {"status", FIELD_STRING, true},
    {"reason", FIELD_STRING, false},
    {"cell", FIELD_OBJECT, true},
    {"loss", FIELD_NUMBER, false},
    {"columns", FIELD_ARRAY, false},
    {"samples_ms", FIELD_ARRAY, false},
    {"median_ms", FIELD_NUMBER, false},
    {"estimate_ms", FIELD_NUMBER, false},
    {"profile", FIELD_STRING, false},
    {"peak_bytes", FIELD_COUNT, false},
    {"peak_by_category", FIELD_OBJECT, false},
    {"resident_bytes", FIELD_COUNT, false},
    {"floor_bytes_per_token", FIELD_NUMBER, false},
    {"lower_bound_bytes", FIELD_NUMBER, false},
    {"peak_over_bound", FIELD_NUMBER, false},
    {"flops", FIELD_NUMBER, false},
    {"model_flops", FIELD_NUMBER, false},
    {"bytes_moved", FIELD_NUMBER, false},
    {"launches", FIELD_COUNT, false},
    {"gradient", FIELD_OBJECT, false},
    {"bias", FIELD_OBJECT, false},
    {"timeline", FIELD_OBJECT, false},
    {"provenance", FIELD_OBJECT, false},
    {"wall_s", FIELD_NUMBER, false},
    {"command", FIELD_STRING, false},
};

static const struct field cell_fields[] = {
    {"dtype", FIELD_STRING, true},   {"device", FIELD_STRING, true}, {"batch", FIELD_COUNT, true},
    {"context", FIELD_COUNT, true},  {"method", FIELD_OBJECT, true}, {"measure", FIELD_OBJECT, false},
    {"limits", FIELD_OBJECT, false},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool has_type(const json_t *value, enum field_type type)
{
    switch (type) {
    case FIELD_STRING:
        return json_is_string(value);
    case FIELD_COUNT:
        return json_is_integer(value) && json_integer_value(value) >= 0;
    case FIELD_NUMBER:
        return json_is_number(value);
    case FIELD_OBJECT:
        return json_is_object(value);
    case FIELD_ARRAY:
        return json_is_array(value);
    }
    return false;
}

static bool check_fields(const json_t *object, const struct field *list, size_t count, const char *where,
                         const char *parent, struct status *status)
{
    static const char *const names[] = {"a string", "a whole number", "a number", "an object", "an array"};
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(object, list[i].name);
        if (!value && list[i].required) {
            return status_set(status, STATUS_BAD_INPUT, "%s: not a record: \"%s%s\" is missing", where, parent,
                              list[i].name);
        }
        if (value && !(json_is_null(value) && !list[i].required) && !has_type(value, list[i].type)) {
            return status_set(status, STATUS_BAD_INPUT, "%s: \"%s%s\" is not %s", where, parent, list[i].name,
                              names[list[i].type]);
        }
    }
    return true;
}

bool record_check(const json_t *record, const char *where, struct status *status)
{
    if (!json_is_object(record)) {
        return status_set(status, STATUS_BAD_INPUT, "%s: not a record: a JSON object was expected", where);
    }
    // The version first: a record of another version may differ in anything else.
    const json_t *schema = json_object_get(record, "schema");
    if (!json_is_integer(schema)) {
        return status_set(status, STATUS_BAD_INPUT, "%s: not a record: \"schema\" is missing", where);
    }
    if (json_integer_value(schema) != RECORD_SCHEMA) {
        return status_set(status, STATUS_BAD_INPUT, "%s: schema %lld, but this program reads schema %d", where,
                          (long long)json_integer_value(schema), RECORD_SCHEMA);
    }
    const json_t *cell = json_object_get(record, "cell");
    if (!check_fields(record, fields, COUNT(fields), where, "", status) ||
        !check_fields(cell, cell_fields, COUNT(cell_fields), where, "cell.", status)) {
        return false;
    }
    if (!json_is_string(json_object_get(json_object_get(cell, "method"), "name"))) {
        return status_set(status, STATUS_BAD_INPUT, "%s: not a record: \"cell.method.name\" is missing", where);
    }
    const char *id = json_string_value(json_object_get(record, "id"));
    if (strlen(id) != 32 || strspn(id, "0123456789abcdef") != 32) {
        return status_set(status, STATUS_BAD_INPUT, "%s: \"id\" is \"%.40s\", not 32 hexadecimal digits", where,
                          id);
    }
    const char *name = json_string_value(json_object_get(record, "status"));
    if (record_status_from_name(name) != RECORD_STATUS_COUNT) {
        return true;
    }
    return status_set(status, STATUS_BAD_INPUT,
                      "%s: \"status\" is \"%.40s\", not ok, oom, timeout, crash, unsupported or failed", where,
                      name);
}

// The whole file, with a 0 behind it; NULL and a status if it cannot be read.
static char *read_all(const char *path, size_t *bytes, struct status *status)
{
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = NULL;
    size_t capacity = 0;
    *bytes = 0;
    for (;;) {
        if (*bytes + 1 >= capacity) {
            capacity = capacity ? 2 * capacity : 65536;
            char *larger = realloc(text, capacity);
            CHECK(larger);
            text = larger;
        }
        size_t got = fread(text + *bytes, 1, capacity - 1 - *bytes, stream);
        *bytes += got;
        if (got == 0) {
            break;
        }
    }
    if (ferror(stream)) {
        status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
        free(text);
        text = NULL;
    } else {
        text[*bytes] = 0;
    }
    fclose(stream);
    return text;
}

bool result_file_read(struct result_file *file, const char *path, struct status *status)
{
    *file = (struct result_file){.path = strdup(path), .records = json_array()};
    CHECK(file->path && file->records);
    char *text = read_all(path, &file->bytes, status);
    if (!text) {
        return false;
    }
    bool fine = true;
    size_t line = 0;
    for (size_t start = 0; fine && start < file->bytes;) {
        line++;
        const char *newline = memchr(text + start, '\n', file->bytes - start);
        size_t end = newline ? (size_t)(newline - text) : file->bytes;
        char where[600];
        snprintf(where, sizeof where, "%.500s:%zu", path, line);
        json_error_t error;
        json_t *record = json_loadb(text + start, end - start, JSON_REJECT_DUPLICATES, &error);
        if (!record && !newline) {
            file->torn_line = line;
            break;
        }
        if (!record) {
            fine = status_set(status, STATUS_BAD_INPUT, "%s:%d: not JSON: %s", where, error.column, error.text);
            break;
        }
        fine = record_check(record, where, status);
        json_array_append_new(file->records, record);
        start = newline ? end + 1 : end;
        file->intact_bytes = start;
        file->unterminated = !newline;
    }
    free(text);
    return fine;
}

void result_file_close(struct result_file *file)
{
    free(file->path);
    json_decref(file->records);
    *file = (struct result_file){0};
}

void result_file_warn(const struct result_file *file)
{
    if (file->torn_line) {
        fprintf(
            stderr,
            "longbp: %s:%zu: warning: the last line is torn (%zu bytes, written by a run that was cut off) and is "
            "ignored\n",
            file->path, file->torn_line, file->bytes - file->intact_bytes);
    }
}

json_t *result_file_find(const struct result_file *file, const char *id)
{
    for (size_t i = json_array_size(file->records); i-- > 0;) {
        json_t *record = json_array_get(file->records, i);
        if (strcmp(json_string_value(json_object_get(record, "id")), id) == 0) {
            return record;
        }
    }
    return NULL;
}
