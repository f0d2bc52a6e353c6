#define _GNU_SOURCE // getline
#include "harness/results/result_file.h"
#include "harness/results/record_check.h"
#include "harness/results/record_json.h"
#include <errno.h>
#include <string.h>

// Whether a last line without its newline is what is left of a record: it has a record's first bytes or, behind
// other records, some of them; zeros may follow, which some file systems leave after a power cut. Anything else is
// not ours.
static bool is_torn(const char *tail, size_t bytes, bool first)
{
    char start[40];
    int length = snprintf(start, sizeof start, "{\"schema\":%d,\"id\":\"", RECORD_SCHEMA), matched = 0;
    while (bytes && !tail[bytes - 1])
        bytes--;
    for (size_t i = 0; i < bytes && matched < length; i++) {
        if (tail[i] == start[matched])
            matched++;
        else if (tail[i] != ' ')
            return false;
    }
    return matched == length || !first;
}

// Reads a line of `bytes`; false if it is not a record. *record is NULL if it is what is left of one.
static bool read_line(struct result_file *file, size_t number, const char *line, size_t bytes, json_t **record,
                      struct status *status)
{
    char where[600];
    json_error_t error;
    bool whole = line[bytes - 1] == '\n';
    snprintf(where, sizeof where, "%.500s:%zu", file->path, number);
    *record = json_loadb(line, whole ? bytes - 1 : bytes, JSON_REJECT_DUPLICATES, &error);
    file->bytes += bytes;
    if (!*record && !whole && is_torn(line, bytes, number == 1)) {
        file->torn_line = number;
        return true;
    }
    if (!*record)
        return status_set(status, STATUS_BAD_INPUT, "%s:%d: not JSON: %s", where, error.column, error.text);
    file->intact_bytes = file->bytes;
    file->unterminated = !whole;
    return record_check(*record, where, status);
}

bool result_file_scan(struct result_file *file, const char *path, result_visit *visit, void *visitor,
                      struct status *status)
{
    *file = (struct result_file){.path = strdup(path)};
    CHECK(file->path);
    FILE *stream = fopen(path, "rb");
    if (!stream)
        return status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    char *line = NULL;
    size_t capacity = 0, number = 0;
    bool fine = true;
    for (ssize_t bytes; fine && (bytes = getline(&line, &capacity, stream)) > 0;) {
        json_t *record;
        fine = read_line(file, ++number, line, (size_t)bytes, &record, status);
        if (fine && record)
            visit(visitor, record);
        json_decref(record);
    }
    if (fine && ferror(stream))
        fine = status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    free(line);
    fclose(stream);
    return fine;
}

static void keep(void *objects, const json_t *record)
{
    CHECK(json_array_append(objects, (json_t *)record) == 0);
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
