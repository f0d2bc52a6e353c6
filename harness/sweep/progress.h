// Progress: messages on stderr during a sweep or a long write: on a terminal the current trial and the time left,
// elsewhere one plain line per trial.
#pragma once
#include "harness/record/record.h"
#include "harness/spec/spec.h"

// Verbosity. Quiet: only failures. Verbose: also every trial's start, id and full reason.
enum progress_detail { PROGRESS_PLAIN, PROGRESS_QUIET, PROGRESS_VERBOSE };

struct progress {
    enum progress_detail detail;
    const struct spec *spec; // the trials' spec; NULL: counts bytes or steps
    bool terminal;           // lines are updated in place
    size_t total, done;      // trials or steps of this run; or bytes when last shown
    size_t counts[RECORD_STATUS_COUNT];
    double start_s, shown_s;
};

void progress_open(struct progress *progress, const struct spec *spec, size_t total, enum progress_detail detail);
// program: the other build that measures the trial; NULL: this one.
void progress_begin(const struct progress *progress, const struct trial *trial, const char *program);
// line: the record; its reason is shown.
void progress_end(struct progress *progress, const struct trial *trial, const char *program,
                  enum record_status status, const char *line);
// For work counted in bytes: on a terminal a line updated a few times a second, elsewhere a line for every tenth of
// more than a GiB.
void progress_bytes(struct progress *progress, size_t done);
// For work counted in steps: on a terminal a line with `words` and the time left.
void progress_step(struct progress *progress, size_t done, const char *words);
// Clears the current line of a terminal.
void progress_clear(const struct progress *progress);
// "6 ok, 1 oom"
void progress_counts(const struct progress *progress, char *text, size_t bytes);
