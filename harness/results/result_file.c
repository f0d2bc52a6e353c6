#define _GNU_SOURCE // getline
#include "harness/results/result_file.h"
#include "harness/files/json_skim.h"
#include "harness/results/record_check.h"
#include "harness/results/record_json.h"
#include <errno.h>
#include <string.h>

// Whether a last line without its newline is what is left of a record: it has a record's first bytes or, behind
// other records, some of them. Anything else is not ours.
static bool is_torn(const char *tail, size_t bytes, bool first)
{
    char start[40];
    int length = snprintf(start, sizeof start, "{\"schema\":%d,\"id\":\"", RECORD_SCHEMA), matched = 0;
    for (size_t i = 0; i < bytes && matched < length; i++) {
        if (tail[i] == start[matched])
            matched++;
        else if (tail[i] != ' ')
            return false;
    }
    return matched == length || !first;
}

static void place_of(const struct result_line *line, char where[600])
{
    snprintf(where, 600, "%.500s:%zu", line->path, line->number);
}

json_t *result_line_read(const struct result_line *line, struct status *status)
{
    char where[600];
    json_error_t error;
    json_t *record = json_loadb(line->text, line->bytes, JSON_REJECT_DUPLICATES, &error);
    place_of(line, where);
    if (!record && line->number == 1 && strcspn(line->text, "[{") < line->bytes &&
        strspn(line->text, "[{ \r\n") >= line->bytes)
        status_set(
            status, STATUS_BAD_INPUT,
            "%s: no record, but JSON over several lines: result files, which `longbp run` writes, hold a record "
            "in each line; what max-context prints goes behind --max-context of `longbp plot` or `longbp report`",
            where);
    else if (!record)
        status_set(status, STATUS_BAD_INPUT, "%s:%d: not JSON: %s", where, error.column, error.text);
    else if (record_check(record, where, status))
        return record;
    json_decref(record);
    return NULL;
}

// What a record is known by, without reading it. False: it takes a closer look.
static bool skim(struct result_line *line)
{
    enum { SCHEMA, ID, STATUS, COUNT };
    static const char *const names[COUNT] = {"schema", "id", "status"};
    struct json_slice found[COUNT];
    char schema[8], status[16] = "";
    int digits = snprintf(schema, sizeof schema, "%d", RECORD_SCHEMA);
    if (!json_skim(line->text, line->bytes, names, found, COUNT) || found[SCHEMA].bytes != (size_t)digits ||
        memcmp(found[SCHEMA].text, schema, (size_t)digits) != 0 || found[ID].bytes != sizeof line->id + 1 ||
        found[STATUS].bytes < 2 || found[STATUS].bytes > sizeof status)
        return false;
    memcpy(line->id, found[ID].text + 1, sizeof line->id - 1);
    memcpy(status, found[STATUS].text + 1, found[STATUS].bytes - 2);
    line->status = record_status_from_name(status);
    return *found[ID].text == '"' && strspn(line->id, "0123456789abcdef") == sizeof line->id - 1 &&
           line->status < RECORD_STATUS_COUNT;
}

// Not a record, or one that is written unlike ours.
static bool look_closer(struct result_line *line, struct status *status)
{
    json_t *record = result_line_read(line, status);
    if (record) {
        snprintf(line->id, sizeof line->id, "%s", json_string_value(json_object_get(record, "id")));
        line->status = record_status_from_name(json_string_value(json_object_get(record, "status")));
    }
    json_decref(record);
    return record;
}

static bool is_json(const struct result_line *line)
{
    json_t *value = json_loadb(line->text, line->bytes, JSON_REJECT_DUPLICATES, NULL);
    json_decref(value);
    return value;
}

// Some file systems leave zeros after a power cut where something was about to be written.
static size_t trailing_zeros(const struct result_line *line)
{
    size_t zeros = 0;
    while (zeros < line->bytes && !line->text[line->bytes - 1 - zeros])
        zeros++;
    return zeros;
}

// False if the line is not a record, or is not wanted. A last line that is torn is left out.
static bool visit_line(struct result_file *file, struct result_line *line, result_visit *visit, void *visitor,
                       struct status *status)
{
    bool whole = line->text[line->bytes - 1] == '\n';
    size_t zeros = whole ? 0 : trailing_zeros(line);
    file->bytes += line->bytes;
    line->bytes -= whole + zeros;
    bool known = skim(line);
    if (!known && !whole && !is_json(line) && is_torn(line->text, line->bytes, line->number == 1)) {
        file->torn_line = line->number;
        return true;
    }
    if (!known && !look_closer(line, status))
        return false;
    file->intact_bytes = file->bytes - zeros;
    file->unterminated = !whole;
    file->torn_line = zeros ? line->number : 0; // of the next record, which is not there
    return visit(visitor, line, status);
}

bool result_file_scan(struct result_file *file, const char *path, result_visit *visit, void *visitor,
                      struct status *status)
{
    *file = (struct result_file){.path = strdup(path)};
    FILE *stream = fopen(path, "rb");
    if (!stream)
        return status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    char *text = NULL;
    size_t capacity = 0, number = 0;
    bool fine = true;
    for (ssize_t bytes; fine && (bytes = getline(&text, &capacity, stream)) > 0;) {
        number++;
        struct result_line line = {.path = file->path, .number = number, .text = text, .bytes = (size_t)bytes};
        fine = visit_line(file, &line, visit, visitor, status);
    }
    if (fine && ferror(stream))
        fine = status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    free(text);
    fclose(stream);
    return fine;
}

// Records of a sweep have much in common: what is as in the one before is in memory once.
static void share(json_t *object, const json_t *before)
{
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        json_t *value = json_object_iter_value(at), *other = json_object_get(before, json_object_iter_key(at));
        if (other && json_equal(value, other))
            json_object_iter_set(object, at, other);
        else if (json_is_object(value) && json_is_object(other))
            share(value, other);
    }
}

static bool keep(void *objects, const struct result_line *line, struct status *status)
{
    json_t *record = result_line_read(line, status);
    size_t count = json_array_size(objects);
    if (record && count)
        share(record, json_array_get(objects, count - 1));
    if (record)
        json_array_append_new(objects, record);
    return record;
}

static void read_objects(struct result_file *file, json_t *objects)
{
    file->objects = objects;
    file->count = json_array_size(objects);
    file->records = calloc(file->count + 1, sizeof *file->records);
    CHECK(file->records);
    for (size_t i = 0; i < file->count; i++)
        record_read(&file->records[i], json_array_get(objects, i));
}

bool result_file_read(struct result_file *file, const char *path, struct status *status)
{
    json_t *objects = json_array();
    CHECK(objects);
    bool fine = result_file_scan(file, path, keep, objects, status);
    read_objects(file, objects);
    return fine;
}

void result_file_wrap(struct result_file *file, const char *path, json_t *objects)
{
    *file = (struct result_file){.path = strdup(path)};
    CHECK(file->path);
    read_objects(file, objects);
}

void result_file_close(struct result_file *file)
{
    for (size_t i = 0; i < file->count; i++)
        record_free(&file->records[i]);
    free(file->path);
    free(file->records);
    json_decref(file->objects);
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
