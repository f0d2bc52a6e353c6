// Comparison rows: what a comparison has to say, line by line, whatever form it is written in.
#pragma once
#include "harness/results/comparison.h"

struct comparison_row {
    const char *change;                   // "worse", "allowed", "slower?"
    bool failure, open;                   // a regression, or part of what cannot be told
    const struct trial_comparison *trial; // NULL: of a group of trials, by their times
    char what[360];                       // the trial, or the group
    char subject[64];                     // "status", "peak_bytes", "time"
    char base[48], new[48];               // "1.00 GiB"; both empty: the note says it all
    char note[480];                       // "+4.00 KiB, +0.0004 %"
};

struct comparison_rows {
    const struct comparison *comparison;
    size_t count;
    struct comparison_row *rows; // [count]: of trials, then of groups
};

// What changed; all: of every trial and every group, also what did not. Release with comparison_rows_free.
void comparison_rows_make(struct comparison_rows *rows, const struct comparison *comparison, bool all);
void comparison_rows_free(struct comparison_rows *rows);
// "method", "context", "dtype": what the groups of times are by.
extern const char *const comparison_axis_names[TIME_AXES];
// Whether a trial has a row.
bool comparison_trial_shown(const struct trial_comparison *trial, bool all);
