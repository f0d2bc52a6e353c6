// Time change: decides whether a build became slower, from trials' times in rounds of two builds on a noisy
// machine.
//
// A trial's time in a round is the geometric mean of the faster half of its samples, because disturbances only add
// time (Chen and Revels 2016). With drawn chunks, sample i is first divided by the median of draw i over both
// builds. Round k of NEW is held against round k of BASE, which were taken in turn: what a machine's speed does
// from round to round it does to both.
//
//   all trials   A round is one value, the median over the trials of log(new / base). Their ratio is the mean over
//                the rounds, with Student's interval of 95 % (1908).
//   one trial    The median of log(new / base) over the rounds, with its error from the median absolute deviation,
//                or the ratio of its minimum times, with its error from the distance of the second smallest from
//                them (Robson and Whitlock 1964). Errors are medians over all trials. Minima need no more than one
//                undisturbed round of each build; medians, from three rounds on, are used if their error is less
//                than half of the minima's, because the machine's speed changes.
//   a group      Trials of one method, context or dtype: the mean of their log ratios.
//
// With the threshold T, of one trial 1.5 T and of k trials T (1 + 0.5 / sqrt k):
//
//   same       the ratio and its error lie below 1 + threshold
//   worse      all trials: the interval lies above 1 and the ratio above 1 + T / 2. A trial or a group: the ratio
//              exceeds the threshold, or nearly so, and exceeds the median of all trials by four errors (a group of
//              three trials or more: by three) and by 5 %; of a trial besides, chance does not explain it: with n
//              trials and the share q of rounds in which something disturbed a trial by 10 % and more, n times the
//              chance that all of a trial's rounds are disturbed (of medians: half of them) is at most 0.01.
//   better     likewise, below 1
//   undecided  otherwise, and always in one round, which says nothing about how far two rounds differ. A group
//              that is undecided by itself is worse where all trials are and its ratio exceeds 1, else not judged.
#pragma once
#include "harness/compare/verdict.h"
#include "harness/stats/sample.h"
#include <stdbool.h>
#include <stddef.h>

#define TIME_AXES      3
#define TIME_THRESHOLD 0.10
// The machine is too noisy if even this many rounds do not suffice.
#define TIME_ROUNDS_MAX 30

struct time_trial {
    const char *groups[TIME_AXES]; // its method, context and dtype
    size_t rounds;                 // on both sides; 0: not timed
    const double *base, *new;      // [rounds]: logarithms of its times, borrowed
    const double *places;          // [rounds]: index of each round, from 0; NULL: the first ones; borrowed
    const char *unusable;          // why the two cannot be compared, or NULL
    // Results:
    enum verdict verdict; // none: not timed
    const char *reason;   // for undecided, else ""
    struct shift ratio;   // new / base; all NaN: unusable; a single round has no interval
};

struct time_group {
    int axis;         // -1: all trials
    const char *name; // one of a trial's groups, borrowed
    size_t trials;
    enum verdict verdict; // none: all trials are worse, and this group is undecided
    struct shift ratio;
};

struct time_change {
    double threshold;
    size_t timed, judged, rounds; // trials; trials with a ratio; maximum rounds per trial
    struct time_group all, *groups;
    size_t group_count;
    bool paired;          // ratios are medians over rounds rather than ratios of minimum times
    double error;         // of a trial's log ratio
    double disturbed;     // q
    size_t rounds_wanted; // rounds needed to settle undecided verdicts; 0: rounds would not help, or:
    bool restless;        // not even TIME_ROUNDS_MAX would
    enum verdict verdict; // the worst
};

// Judges every trial, every group of two or more trials, and all trials. Release with time_change_free.
void time_change_judge(struct time_change *change, double threshold, struct time_trial *trials, size_t count);
void time_change_free(struct time_change *change);
