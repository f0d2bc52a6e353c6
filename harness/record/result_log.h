// Result log: a result file while a sweep writes it: locked, resumed, and never losing a record that was written.
#pragma once
#include "harness/record/result_ids.h"
#include "kernels/base/status.h"
#include <sys/types.h>

struct result_log {
    const char *path;
    int file;
    bool regular;               // a device or a pipe is written to, but cannot be locked, resumed or cut
    bool unterminated;          // a newline must come first
    bool torn;                  // what is after `end` must be cut off
    bool created;               // there was no file
    bool moves;                 // what is there is to be moved away
    off_t end;                  // after the last whole record
    struct result_ids existing; // of the records that were there
};

// Opens or creates the file, locks it against other sweeps, reads what it holds and cuts off a torn last line.
// fresh: what it holds is not read, and stays until result_log_begin. False and a status (bad input: another sweep
// has it, or it holds something else, which then stays as it is; io). Release with result_log_close, also after a
// failure.
bool result_log_open(struct result_log *log, const char *path, bool fresh, struct status *status);
// Before the first record. Opened as fresh: what is there moves to PATH.bak, or to PATH.bak.2 and so on where that
// has other trials, and what is there then is read, for another sweep may have been between. False and a status, as
// of opening.
bool result_log_begin(struct result_log *log, struct status *status);
// Instead of that: a file that was not there, and has no record, goes again.
void result_log_abandon(struct result_log *log);
// Appends a record and waits until it is on the disk. After a failure the file is as it was before.
bool result_log_append(struct result_log *log, const char *line, struct status *status);
// Whether the path still leads to the file, with all its records and nothing else; false and a status (io) if
// somebody removed, replaced or changed it.
bool result_log_kept(const struct result_log *log, struct status *status);
void result_log_close(struct result_log *log);
