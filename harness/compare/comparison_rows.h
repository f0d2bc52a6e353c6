// Comparison rows: a comparison line by line, for every output format.
#pragma once
#include "harness/compare/comparison.h"

struct comparison_row {
    enum verdict verdict;
    const char *word, *subject; // the verdict, "allowed", "bits" or "only in NEW"; "status", "peak_bytes", "time"
    const struct trial_comparison *trial; // NULL: a group of trials, by their times
    char what[360];                       // the trial, or the group
    char base[48], new[48];               // "1.00 GiB"; if both are empty, the note has everything
    char note[480];                       // "+4.00 KiB, +0.0004 %"
};

// Called with each row in order.
struct comparison_reader {
    void (*read)(const struct comparison_row *row, void *data);
    void *data;
};

// Reads the changes of a trial or of the groups; all: also unchanged ones.
void comparison_read_trial(const struct comparison *comparison, const struct trial_comparison *trial, bool all,
                           const struct comparison_reader *reader);
void comparison_read_groups(const struct comparison *comparison, bool all, const struct comparison_reader *reader);
// Reads every shown trial, then the groups.
void comparison_read(const struct comparison *comparison, bool all, const struct comparison_reader *reader);
// "method", "context", "dtype": the groupings of times.
extern const char *const comparison_axis_names[TIME_AXES];
// Tells whether a trial has a row.
bool comparison_trial_shown(const struct trial_comparison *trial, bool all);
