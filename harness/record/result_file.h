// Result file: records of measured trials, one line of JSON each (harness/record/record.h), read strictly. Only a
// torn last line, as after a crash, is tolerated: it is reported and can be cut off. Identical lines, as in merged
// files, count once.
#pragma once
#include "harness/files/line_set.h"
#include "harness/json/interned.h"
#include "harness/record/record.h"
#include "kernels/base/status.h"

struct result_file {
    char *path;
    size_t count;
    struct record *records;   // [count], in the order of the lines; none after a scan
    size_t repeated;          // repeated lines, left out
    struct interned interned; // the records' texts, arrays and JSON
    size_t bytes;             // of the file
    size_t intact_bytes;      // up to the end of the last complete record; less than bytes if the last line is torn
    size_t torn_line;         // its number from 1; 0: none
    bool unterminated;        // the last record is complete but lacks its newline: write one before appending
};

// Reads every record. Returns false and a status with file and line if a line is no record of this program's
// schema; skips a torn last line (no newline, not JSON, but with a record's beginning). Release with
// result_file_close, also after a failure.
bool result_file_read(struct result_file *file, const char *path, struct status *status);
// Reads one of several files; `lines` has the earlier files' lines.
bool result_file_read_next(struct result_file *file, const char *path, struct line_set *lines,
                           struct status *status);
// Keeps only wanted records in memory.
typedef bool result_wanted(void *chooser, const struct record *record);
bool result_file_read_some(struct result_file *file, const char *path, result_wanted *wanted, void *chooser,
                           struct status *status);
// Reads line by line, with at most one in memory; visits repeated lines too. Returns false if `visit` does.
struct result_line {
    const char *path, *text; // without a newline
    size_t bytes, number;    // from 1
    const struct record *record;
};
typedef bool result_visit(void *visitor, const struct result_line *line, struct status *status);
bool result_file_scan(struct result_file *file, const char *path, result_visit *visit, void *visitor,
                      struct status *status);
void result_file_close(struct result_file *file);
// Reports a torn last line and the number of skipped lines on stderr.
void result_file_warn(const struct result_file *file);
