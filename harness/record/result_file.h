// Result file: records of measured trials, one line of JSON each (harness/record/record.h), read strictly.
// Only what a crash in mid-write leaves, a torn last line, is forgiven; it is reported and can be cut off. Of lines
// that are the same byte for byte, as where files were put together that had some in common, the first counts.
#pragma once
#include "harness/files/line_set.h"
#include "harness/json/interned.h"
#include "harness/record/record.h"
#include "kernels/base/status.h"

struct result_file {
    char *path;
    size_t count;
    struct record *records;   // [count], in the order of the lines; none after a scan
    size_t repeated;          // lines that were read before, left out
    struct interned interned; // the records' texts, arrays and JSON
    size_t bytes;             // of the file
    size_t intact_bytes;      // up to the end of the last whole record; less than bytes when the last line is torn
    size_t torn_line;         // its number from 1; 0: none
    bool unterminated;        // the last record is whole but lacks its newline: write one before appending
};

// Reads every record. False and a status that names file and line when a line is not a record of this program's
// schema; a torn last line (no newline, not JSON, but with a record's beginning) is left out instead. Release with
// result_file_close, also after a failure.
bool result_file_read(struct result_file *file, const char *path, struct status *status);
// One of several files, of which `lines` has the lines of those before.
bool result_file_read_next(struct result_file *file, const char *path, struct line_set *lines,
                           struct status *status);
// Only the records that are wanted; others stay in memory for a moment alone.
typedef bool result_wanted(void *chooser, const struct record *record);
bool result_file_read_some(struct result_file *file, const char *path, result_wanted *wanted, void *chooser,
                           struct status *status);
// The same line by line, of which no more than one is in memory; repeated lines are visited, too. Ends with false
// where `visit` returns that.
struct result_line {
    const char *path, *text; // without a newline
    size_t bytes, number;    // from 1
    const struct record *record;
};
typedef bool result_visit(void *visitor, const struct result_line *line, struct status *status);
bool result_file_scan(struct result_file *file, const char *path, result_visit *visit, void *visitor,
                      struct status *status);
// The records that were made elsewhere, a list of objects. False and a status if one is none.
bool result_file_wrap(struct result_file *file, const char *path, const json_t *objects, struct status *status);
void result_file_close(struct result_file *file);
// Says on stderr that the last line is torn, if it is, and how many lines were left out.
void result_file_warn(const struct result_file *file);
