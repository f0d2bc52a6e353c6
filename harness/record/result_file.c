#define _GNU_SOURCE // getline
#include "harness/record/result_file.h"
#include "harness/files/input_files.h"
#include "harness/json/json_skim.h"
#include "harness/record/record_check.h"
#include "harness/record/record_json.h"
#include "harness/record/record_skim.h"
#include "harness/text/size.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

// Whether a last line without its newline is what is left of a record: it has a record's first bytes or, after
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

// Of a training run's own file, steps.jsonl.
static bool is_step(const json_t *line)
{
    return !json_object_get(line, "schema") && json_object_get(line, "step") &&
           (json_object_get(line, "loss") || json_object_get(line, "evaluation_loss"));
}

json_t *result_line_read(const struct result_line *line, struct status *status)
{
    char where[600];
    json_error_t error;
    json_t *record = json_loadb(line->text, line->bytes, JSON_REJECT_DUPLICATES, &error);
    place_of(line, where);
    if (!record && line->number == 1 && json_error_code(&error) == json_error_premature_end_of_input &&
        strspn(line->text, " \t\r\n") < line->bytes)
        status_set(status, STATUS_BAD_INPUT,
                   "%s: no record, but JSON over several lines: result files, which `longbp run` makes of an "
                   "experiment's spec, hold a record in each line; what max-context and max-batch print goes "
                   "behind --max-context of `longbp plot` or `longbp report`",
                   where);
    else if (!record)
        status_set(status, STATUS_BAD_INPUT, "%s:%d: not JSON: %s", where, error.column, error.text);
    else if (is_step(record))
        status_set(
            status, STATUS_BAD_INPUT,
            "%s: no record, but a step as `longbp train` prints it; a curve is drawn from the record of a spec "
            "with \"train\", which `longbp run` writes",
            where);
    else if (record_check(record, where, status))
        return record;
    json_decref(record);
    return NULL;
}

// What a record is known by, without reading it. False: it takes a closer look.
static bool skim(struct result_line *line)
{
    enum { SCHEMA, ID, STATUS, DATA_HASH, MODEL_HASH, COUNT };
    static const char *const names[COUNT] = {"schema", "id", "status", "data_hash", "model_hash"};
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
    if (found[DATA_HASH].bytes == sizeof line->data_hash + 1)
        memcpy(line->data_hash, found[DATA_HASH].text + 1, sizeof line->data_hash - 1);
    if (found[MODEL_HASH].bytes == sizeof line->model_hash + 1)
        memcpy(line->model_hash, found[MODEL_HASH].text + 1, sizeof line->model_hash - 1);
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
        const char *data = json_string_value(json_object_get(record, "data_hash"));
        const char *model = json_string_value(json_object_get(record, "model_hash"));
        snprintf(line->data_hash, sizeof line->data_hash, "%s", data ? data : "");
        snprintf(line->model_hash, sizeof line->model_hash, "%s", model ? model : "");
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

// What is done with a line. reads: it is read whole, and needs no skim before.
struct visit {
    result_visit *function;
    void *visitor;
    bool reads;
};

// False if the line is not a record, or is not wanted. A last line that is torn is left out.
static bool visit_line(struct result_file *file, struct result_line *line, const struct visit *visit,
                       struct status *status)
{
    bool whole = line->text[line->bytes - 1] == '\n';
    size_t zeros = whole ? 0 : trailing_zeros(line);
    file->bytes += line->bytes;
    line->bytes -= whole + zeros;
    bool known = (visit->reads && whole) || skim(line);
    if (!known && !whole && !is_json(line) && is_torn(line->text, line->bytes, line->number == 1)) {
        file->torn_line = line->number;
        return true;
    }
    if (!known && !look_closer(line, status))
        return false;
    file->intact_bytes = file->bytes - zeros;
    file->unterminated = !whole;
    file->torn_line = zeros ? line->number : 0; // of the next record, which is not there
    return visit->function(visit->visitor, line, status);
}

FILE *result_stream_open(const char *path, struct status *status)
{
    struct stat info;
    FILE *stream = fopen(path, "rb");
    if (!stream || fstat(fileno(stream), &info) != 0) {
        status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    } else if (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode)) {
        status_set(status, STATUS_BAD_INPUT, "%s: a device; expected a result file, or a pipe that gives one",
                   path);
    } else {
        return stream;
    }
    if (stream)
        fclose(stream);
    return NULL;
}

static bool scan(struct result_file *file, const char *path, const struct visit *visit, struct status *status)
{
    *file = (struct result_file){.path = strdup(path)};
    FILE *stream = result_stream_open(path, status);
    if (!stream)
        return false;
    input_files_note(fileno(stream));
    char *text = NULL;
    size_t capacity = 0, number = 0;
    bool fine = true;
    for (ssize_t bytes; fine && (bytes = getline(&text, &capacity, stream)) > 0;) {
        number++;
        struct result_line line = {.path = file->path, .number = number, .text = text, .bytes = (size_t)bytes};
        fine = visit_line(file, &line, visit, status);
    }
    if (fine && ferror(stream))
        fine = status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    free(text);
    fclose(stream);
    return fine;
}

bool result_file_scan(struct result_file *file, const char *path, result_visit *visit, void *visitor,
                      struct status *status)
{
    return scan(file, path, &(struct visit){visit, visitor, false}, status);
}

// Records as they are read, and what they borrow from.
struct kept {
    struct line_set *lines; // that were read before
    size_t repeated, count, capacity;
    struct record *records;
    struct interned interned;
    json_t *objects;
};

static struct record *add(struct kept *kept)
{
    if (kept->count == kept->capacity) {
        kept->capacity = kept->capacity ? 2 * kept->capacity : 16;
        kept->records = realloc(kept->records, kept->capacity * sizeof *kept->records);
        CHECK(kept->records);
    }
    return &kept->records[kept->count++];
}

// Takes over the object.
static void add_object(struct kept *kept, json_t *object)
{
    record_read(add(kept), object);
    CHECK(json_array_append_new(kept->objects, object) == 0);
}

static bool keep(void *visitor, const struct result_line *line, struct status *status)
{
    struct kept *kept = visitor;
    if (!line_set_add(kept->lines, line->text, line->bytes)) {
        kept->repeated++;
        return true;
    }
    struct record *record = add(kept);
    if (record_skim(record, line->text, line->bytes, &kept->interned))
        return true;
    kept->count--;
    json_t *object = result_line_read(line, status);
    if (object)
        add_object(kept, object);
    return object;
}

static void take_over(struct result_file *file, const struct kept *kept)
{
    file->count = kept->count;
    file->records = kept->records;
    file->repeated = kept->repeated;
    file->interned = kept->interned;
    interned_finish(&file->interned);
    file->objects = kept->objects;
}

bool result_file_read(struct result_file *file, const char *path, struct status *status)
{
    struct line_set lines = {0};
    bool fine = result_file_read_next(file, path, &lines, status);
    line_set_free(&lines);
    return fine;
}

bool result_file_read_next(struct result_file *file, const char *path, struct line_set *lines,
                           struct status *status)
{
    struct kept kept = {.lines = lines, .objects = json_array()};
    CHECK(kept.objects);
    bool fine = scan(file, path, &(struct visit){keep, &kept, true}, status);
    take_over(file, &kept);
    return fine;
}

void result_file_wrap(struct result_file *file, const char *path, const json_t *objects)
{
    struct kept kept = {.objects = json_array()};
    *file = (struct result_file){.path = strdup(path)};
    CHECK(file->path && kept.objects);
    for (size_t i = 0; i < json_array_size(objects); i++)
        add_object(&kept, json_incref(json_array_get(objects, i)));
    take_over(file, &kept);
}

void result_file_close(struct result_file *file)
{
    for (size_t i = 0; i < file->count; i++)
        record_free(&file->records[i]);
    free(file->path);
    free(file->records);
    json_decref(file->objects);
    interned_free(&file->interned);
    *file = (struct result_file){0};
}

void result_file_warn(const struct result_file *file)
{
    if (file->torn_line) {
        fprintf(stderr,
                "longbp: %s:%zu: warning: the last line is torn (%zu %s, written by a run that was cut off) and is "
                "ignored\n",
                file->path, file->torn_line, file->bytes - file->intact_bytes,
                size_text_unit(file->bytes - file->intact_bytes));
    }
    if (file->repeated)
        fprintf(stderr,
                "longbp: %s: warning: %zu record%s left out, for the same line, byte for byte, was read before: it "
                "counts once\n",
                file->path, file->repeated, file->repeated == 1 ? " is" : "s are");
}
