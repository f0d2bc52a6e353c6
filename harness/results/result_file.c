#include "harness/results/result_file.h"
#include "harness/results/record.h"
#include "harness/results/record_check.h"
#include <errno.h>
#include <string.h>

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
        if (!record && !newline && is_torn(text + start, end - start, start == 0)) {
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

json_t *result_file_counts(const struct result_file *file, bool only_ok)
{
    json_t *counts = json_object();
    CHECK(counts);
    for (size_t i = 0; i < json_array_size(file->records); i++) {
        const json_t *record = json_array_get(file->records, i);
        const char *status = json_string_value(json_object_get(record, "status"));
        if (!only_ok || record_status_from_name(status) == RECORD_OK) {
            const char *id = json_string_value(json_object_get(record, "id"));
            json_object_set_new(counts, id, json_integer(json_integer_value(json_object_get(counts, id)) + 1));
        }
    }
    return counts;
}
