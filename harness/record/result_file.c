#define _GNU_SOURCE // getline
#include "harness/record/result_file.h"
#include "harness/files/input_files.h"
#include "harness/record/record_read.h"
#include "harness/text/size.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

// Tells whether an unterminated last line is an incomplete record: it has a record's first bytes or, after other
// records, some of them. Other lines are no records of this program.
static bool is_torn(const char *tail, size_t bytes, bool first)
{
    char start[40];
    int length = snprintf(start, sizeof start, "{\"schema\":%d,\"id\":\"", RECORD_SCHEMA), matched = 0;
    for (size_t i = 0; i < bytes && matched < length; i++)
        if (tail[i] == start[matched])
            matched++;
        else if (tail[i] != ' ')
            return false;
    return matched == length || !first;
}

// A line of a training run's steps.jsonl.
static bool is_step(const json_t *line)
{
    return !json_object_get(line, "schema") && json_object_get(line, "step") &&
           (json_object_get(line, "loss") || json_object_get(line, "evaluation_loss"));
}

// wrong: the record reader's error.
static bool refuse(const struct result_line *line, const char *where, const struct status *wrong,
                   struct status *status)
{
    json_error_t error;
    json_t *value = json_loadb(line->text, line->bytes, JSON_REJECT_DUPLICATES, &error);
    bool begins = !value && line->number == 1 && json_error_code(&error) == json_error_premature_end_of_input &&
                  strspn(line->text, " \t\r\n") < line->bytes;
    const char *found =
        begins ? "no record, but JSON over several lines: result files, which `longbp run` makes of an "
                 "experiment's spec, hold a record in each line"
        : is_step(value)
            ? "no record, but a step as `longbp train` prints it; a curve is drawn from the record of a "
              "spec with \"train\", which `longbp run` writes"
            : NULL;
    json_decref(value);
    if (found)
        return status_set(status, STATUS_BAD_INPUT, "%s: %s", where, found);
    *status = *wrong;
    return false;
}

static bool is_json(const struct result_line *line)
{
    json_t *value = json_loadb(line->text, line->bytes, JSON_REJECT_DUPLICATES, NULL);
    json_decref(value);
    return value;
}

// Some file systems leave zeros after a power cut instead of the data being written.
static size_t trailing_zeros(const struct result_line *line)
{
    size_t zeros = 0;
    while (zeros < line->bytes && !line->text[line->bytes - 1 - zeros])
        zeros++;
    return zeros;
}

// A callback for each record, and the storage of its texts.
struct visit {
    result_visit *function;
    void *visitor;
    struct interned *interned;
};

// Returns false if the line is no record or is unwanted. Skips a torn last line.
static bool visit_line(struct result_file *file, char *text, struct result_line *line, const struct visit *visit,
                       struct status *status)
{
    char where[600];
    struct record record;
    struct status wrong = {0};
    bool whole = line->text[line->bytes - 1] == '\n';
    size_t zeros = whole ? 0 : trailing_zeros(line);
    file->bytes += line->bytes;
    line->bytes -= whole + zeros;
    text[line->bytes] = 0;
    snprintf(where, sizeof where, "%.500s:%zu", line->path, line->number);
    bool known = record_read(&record, text, line->bytes, visit->interned, where, &wrong);
    if (!known && !whole && !is_json(line) && is_torn(line->text, line->bytes, line->number == 1)) {
        file->torn_line = line->number;
        return true;
    }
    if (!known)
        return refuse(line, where, &wrong, status);
    file->intact_bytes = file->bytes - zeros;
    file->unterminated = !whole;
    file->torn_line = zeros ? line->number : 0; // of the missing next record
    line->record = &record;
    bool goes_on = visit->function(visit->visitor, line, status);
    line->record = NULL;
    return goes_on;
}

static FILE *open_stream(const char *path, struct status *status)
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
    FILE *stream = open_stream(path, status);
    if (!stream)
        return false;
    input_files_note(fileno(stream));
    char *text = NULL;
    size_t capacity = 0, number = 0;
    bool fine = true;
    for (ssize_t bytes; fine && (bytes = getline(&text, &capacity, stream)) > 0;) {
        number++;
        struct result_line line = {.path = file->path, .number = number, .text = text, .bytes = (size_t)bytes};
        fine = visit_line(file, text, &line, visit, status);
    }
    if (fine && ferror(stream))
        fine = status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    free(text);
    fclose(stream);
    return fine;
}

// Texts of visited records are released at intervals.
#define SCANNED_TEXTS_MAX 1000

struct scanning {
    result_visit *visit;
    void *visitor;
    struct interned interned;
};

static bool visit_scanned(void *visitor, const struct result_line *line, struct status *status)
{
    struct scanning *scanning = visitor;
    bool goes_on = scanning->visit(scanning->visitor, line, status);
    if (scanning->interned.count > SCANNED_TEXTS_MAX)
        interned_free(&scanning->interned);
    return goes_on;
}

bool result_file_scan(struct result_file *file, const char *path, result_visit *visit, void *visitor,
                      struct status *status)
{
    struct scanning scanning = {.visit = visit, .visitor = visitor};
    bool fine = scan(file, path, &(struct visit){visit_scanned, &scanning, &scanning.interned}, status);
    interned_free(&scanning.interned);
    return fine;
}

// Records being kept, and the storage they borrow from.
struct kept {
    struct line_set *lines; // earlier lines
    size_t repeated, count, capacity;
    struct record *records;
    struct interned interned;
};

static void add(struct kept *kept, const struct record *record)
{
    if (kept->count == kept->capacity) {
        kept->capacity = kept->capacity ? 2 * kept->capacity : 16;
        kept->records = realloc(kept->records, kept->capacity * sizeof *kept->records);
    }
    kept->records[kept->count++] = *record;
}

static bool keep(void *visitor, const struct result_line *line, struct status *status)
{
    (void)status;
    struct kept *kept = visitor;
    if (line_set_add(kept->lines, line->text, line->bytes))
        add(kept, line->record);
    else
        kept->repeated++;
    return true;
}

static void take_over(struct result_file *file, const struct kept *kept)
{
    file->count = kept->count;
    file->records = kept->records;
    file->repeated = kept->repeated;
    file->interned = kept->interned;
    interned_finish(&file->interned);
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
    struct kept kept = {.lines = lines};
    bool fine = scan(file, path, &(struct visit){keep, &kept, &kept.interned}, status);
    take_over(file, &kept);
    return fine;
}

// Wanted records, which are read a second time to be kept.
struct wanted {
    struct kept kept;
    result_wanted *function;
    void *chooser;
};

static bool keep_wanted(void *visitor, const struct result_line *line, struct status *status)
{
    struct wanted *wanted = visitor;
    struct kept *kept = &wanted->kept;
    if (!wanted->function(wanted->chooser, line->record))
        return true;
    struct record record;
    struct result_line own = *line;
    own.record = &record;
    return record_read(&record, line->text, line->bytes, &kept->interned, line->path, status) &&
           keep(kept, &own, status);
}

bool result_file_read_some(struct result_file *file, const char *path, result_wanted *function, void *chooser,
                           struct status *status)
{
    struct line_set lines = {0};
    struct wanted wanted = {{.lines = &lines}, function, chooser};
    bool fine = result_file_scan(file, path, keep_wanted, &wanted, status);
    take_over(file, &wanted.kept);
    line_set_free(&lines);
    return fine;
}

void result_file_close(struct result_file *file)
{
    free(file->path);
    free(file->records);
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
