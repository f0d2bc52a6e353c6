// Comparison rows: what a comparison has to say, line by line, whatever form it is written in.
#pragma once
#include "harness/compare/comparison.h"
#include "harness/files/interned.h"

struct comparison_row {
    enum verdict verdict;
    const char *word;                     // the verdict, or "allowed", "bits", "only in NEW"
    const struct trial_comparison *trial; // NULL: of a group of trials, by their times
    const char *what;                     // the trial, or the group
    const char *subject;                  // "status", "peak_bytes", "time"
    const char *base, *new;               // "1.00 GiB"; both empty: the note says it all
    const char *note;                     // "+4.00 KiB, +0.0004 %"
};

struct comparison_rows {
    const struct comparison *comparison;
    size_t count;
    struct comparison_row *rows; // [count]: of trials, then of groups
    struct interned words;       // theirs
};

// What changed; all: of every trial and every group, also what did not. Release with comparison_rows_free.
void comparison_rows_make(struct comparison_rows *rows, const struct comparison *comparison, bool all);
void comparison_rows_free(struct comparison_rows *rows);
// "method", "context", "dtype": what the groups of times are by.
extern const char *const comparison_axis_names[TIME_AXES];
// Whether a trial has a row.
bool comparison_trial_shown(const struct trial_comparison *trial, bool all);
