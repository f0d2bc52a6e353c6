// Result log: a result file during a sweep: locked, resumed, and never losing a written record.
#pragma once
#include "harness/record/result_ids.h"
#include "kernels/base/status.h"
#include <sys/types.h>

struct result_log {
    const char *path;
    int file;
    bool regular;               // devices and pipes cannot be locked, resumed or cut
    bool unterminated;          // write a newline first
    bool torn;                  // cut off everything after `end`
    bool created;               // the file was created
    bool moves;                 // move the existing file away
    off_t end;                  // after the last complete record
    struct result_ids existing; // of existing records
};

// Opens or creates the file, locks it against other sweeps, reads it and cuts off a torn last line. fresh: does not
// read it; it stays until result_log_begin. Returns false and a status (bad input: another sweep has it, or it
// holds something else and is not changed; io). Release with result_log_close, also after a failure.
bool result_log_open(struct result_log *log, const char *path, bool fresh, struct status *status);
// Call before the first record. If opened as fresh: moves the existing file to PATH.bak, or to PATH.bak.2 and so on
// if that has other trials, and reads the new file, in case another sweep has run meanwhile. Returns false and a
// status as for opening.
bool result_log_begin(struct result_log *log, struct status *status);
// Call instead to remove a created file without records.
void result_log_abandon(struct result_log *log);
// Appends a record and syncs it to disk. A failure leaves the file unchanged.
bool result_log_append(struct result_log *log, const char *line, struct status *status);
// Tells whether the path still leads to the file, with all its records and nothing else; returns false and a status
// (io) if it was removed, replaced or changed.
bool result_log_kept(const struct result_log *log, struct status *status);
void result_log_close(struct result_log *log);
