// History: records of many commits, trial by trial: how every figure went, and at which commit it changed.
//
// A commit is the revision that records carry; what was built from changed files is a commit of its own after it.
// At each commit every trial that it has is compared (comparison.h) with what it was at the last commit before that
// has it: figures that are the same in every run change where they are not equal, times where the test of `compare`
// says so.
#pragma once
#include "harness/compare/comparison.h"
#include "harness/record/results.h"

struct history_commit {
    const char *revision; // "unknown": the records do not say
    bool dirty;
    const char *time;             // of its first record; "": not known
    size_t first, place;          // its first record's place, and the commit's in git's order; 0 without git
    size_t trials;                // that it has
    struct comparison comparison; // of those that an earlier commit has, too
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
    bool by_git; // the commits' order is git's; else that of their first records' times
    size_t commit_count, trial_count;
    struct history_commit *commits; // [commit_count], the oldest first
    struct history_trial *trials;   // [trial_count], in the order in which the records first have them
    const struct record **records;  // what points point to
};

struct histories {
    size_t count;
    struct history *items; // [count], in the order in which the records first have the experiments
};

// The records are borrowed. Release with histories_free.
void histories_make(struct histories *histories, const struct record *const *records, size_t count);
void histories_free(struct histories *histories);
// How many trials several commits have.
size_t history_compared(const struct history *history);
// The trial's comparison at a commit; NULL: it was not compared there.
const struct trial_comparison *history_change(const struct history *history, const struct history_trial *trial,
                                              size_t commit);
