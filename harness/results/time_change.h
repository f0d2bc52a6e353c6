// Time change: whether a build became slower, from the samples of many trials that two runs took on a noisy
// machine (time_trial.h).
//
// A trial's ratio carries three errors: the noise of the samples, which its interval shows; the machine's drift
// from trial to trial, which shows as `spread` among trials that share a method, a context or a dtype, and is taken
// for no less than what shared machines are known for, which for processor times is more; and its drift from one
// run to the other, which nothing in two files shows: `threshold` is the allowance for it, and all of `shared`, the
// slow-down that three quarters of the trials have, may be the machine's.
//
// A trial's verdicts hold for all trials together and for those of one method, context or dtype, too: the ratio is
// the median over the trials, the interval the sign test's from 6 trials on, below that two standard errors, spread
// / sqrt(trials). Trials that are too few to show their spread have the one that is assumed, which for processor
// times is more where no rounds show it, and an interval no narrower than their own. If all trials are slower, that
// is a regression. A part of them must besides stand out: its ratio exceeds `shared` by the threshold and by 3
// standard errors. So must a single trial, by more, and its p, corrected for the number of trials (Holm 1979), must
// be at most 0.05; and where there are trials enough to know their spread, its samples must come from two runs or
// more on either side, for those of one run share the few seconds that they were taken in, and among many trials a
// neighbour on the machine hits some. `disturbed` is how often it hits a run of a trial; `chance` is how many
// trials it then hits in every run. If that is more than 0.05, no single trial proves anything. What stands out and
// is not proven is left open: cannot tell, unless it is single trials that chance explains. So is everything if the
// machine was too restless to tell: trials whose samples scatter are left out, and where two and more than a tenth
// of all do, nothing is called slower or faster; where the spread exceeds the threshold, nothing is called the same
// either. A trial that waited is open.
#pragma once
#include "harness/results/time_trial.h"

// Between 1 and 1.15 on a log scale: two runs of one build may differ by as much as a slow-down of 15 % may shrink.
#define TIME_THRESHOLD 0.07

struct time_group {
    int axis;            // -1: all
    const char *name;    // one of a trial's groups, borrowed
    size_t trials;       // judged ones
    bool processor_time; // some of them are times of the processors
    enum time_verdict verdict;
    bool regression, open;
    struct shift ratio;
};

struct time_change {
    double threshold; // 0.07: 7 %
    struct time_group all, *groups;
    size_t group_count;
    size_t measured, judged, unsteady; // trials
    double spread, shared;             // of log ratios; as a ratio, at least 1
    double disturbed, chance;          // share of runs; trials that it makes look slower, on average
    bool spread_known;                 // there are trials enough; else it is the least that is assumed
    enum time_verdict verdict;         // slower: a regression
    char reason[240];                  // of cannot tell, and of what was planned
};

// Judges every trial, every group and all of them. Release with time_change_free.
void time_change_judge(struct time_change *change, double threshold, struct time_trial *trials, size_t count);
void time_change_free(struct time_change *change);
