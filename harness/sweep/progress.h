// Progress: what a sweep, or a command that writes for long, says on stderr meanwhile: on a terminal the current
// trial and the time left, elsewhere one plain line per trial.
#pragma once
#include "harness/record/record.h"
#include "harness/spec/spec.h"

// How much is said: what goes wrong alone; or every trial's begin, id and whole reason, too.
enum progress_detail { PROGRESS_PLAIN, PROGRESS_QUIET, PROGRESS_VERBOSE };

struct progress {
    enum progress_detail detail;
    const struct spec *spec; // whose trials; NULL: bytes or steps
    bool terminal;           // on which a line is renewed
    size_t total, done;      // trials or steps of this run; or bytes, as far as they were shown
    size_t counts[RECORD_STATUS_COUNT];
    double start_s, shown_s;
};

void progress_open(struct progress *progress, const struct spec *spec, size_t total, enum progress_detail detail);
// program: that measures the trial, if it is not this one; else NULL.
void progress_begin(const struct progress *progress, const struct trial *trial, const char *program);
// line: the record; its reason is shown.
void progress_end(struct progress *progress, const struct trial *trial, const char *program,
                  enum record_status status, const char *line);
// For work that is counted in bytes, of which so many are done: on a terminal a line that is renewed a few times a
// second, elsewhere a line for every tenth of what is more than a GiB.
void progress_bytes(struct progress *progress, size_t done);
// For work of steps, of which so many are done: on a terminal a line of what there is to say, and the time left.
void progress_step(struct progress *progress, size_t done, const char *words);
// Takes the current line off a terminal.
void progress_clear(const struct progress *progress);
// "6 ok, 1 oom"
void progress_counts(const struct progress *progress, char *text, size_t bytes);
