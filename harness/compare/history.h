// History: the records of many commits, trial by trial: each figure's course, and the commits that changed it.
//
// A commit is a revision in records; a build from changed files counts as a commit after it. Each trial of a commit
// is compared (comparison.h) with the last earlier commit that has it: deterministic figures change if they are not
// equal, times by the test of `compare`.
#pragma once
#include "harness/compare/comparison.h"
#include "harness/record/results.h"

struct history_commit {
    const char *revision; // "unknown" if records lack it
    bool dirty;
    const char *time;             // of its first record; "": unknown
    size_t first, place;          // index of its first record, and the commit's place in git's order; 0 without git
    size_t trials;                // number of its trials
    struct comparison comparison; // of the trials that an earlier commit has too
};

struct history_point {
    size_t commit, count;
    const struct record **records; // [count], of the trial at the commit, at least one
    const struct record *record;   // the last of them
};

struct history_trial {
    struct trial_name what;
    size_t count;
    struct history_point *points; // [count], at least one, by commit
};

struct history { // of one experiment
    const char *experiment;
    bool by_git; // commits are in git's order; otherwise by the time of their first records
    size_t commit_count, trial_count;
    struct history_commit *commits; // [commit_count], oldest first
    struct history_trial *trials;   // [trial_count], in order of first occurrence in the records
    const struct record **records;  // storage of the points' records
};

struct histories {
    size_t count;
    struct history *items; // [count], in order of first occurrence in the records
};

// The records are borrowed. Release with histories_free.
void histories_make(struct histories *histories, const struct record *const *records, size_t count);
void histories_free(struct histories *histories);
// Number of trials that several commits have.
size_t history_compared(const struct history *history);
// The trial's comparison at a commit; NULL: not compared there.
const struct trial_comparison *history_change(const struct history *history, const struct history_trial *trial,
                                              size_t commit);
