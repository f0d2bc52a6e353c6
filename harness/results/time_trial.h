// Time trial: whether one trial became slower, from the samples that two runs of it took on a noisy machine.
//
// Its ratio new / base is the median of all pairwise ratios of its samples, with the rank test's interval; where
// sample i of either side walked draw i, or both were taken in turn round by round, of the samples over their
// draw's or round's geometric mean, exchanged within it (rank_test.h): times of different ones are not compared.
// Samples of one process are alike, so that of rounds the interval is no narrower than what the differences of
// their ratios say of the mean (Student 1908).
//
//   slower    the interval lies above 1 and the ratio above 1 + threshold; faster: below 1 and its inverse
//   same      the ratio is within the threshold, and the interval within 1.5
//   cannot tell  otherwise
//
// A trial of one run whose samples scatter (quartiles 1.3 apart) has no ratio. Nor is a trial of several threads
// the same that is so by processor time, but slower by the clock: cannot tell.
#pragma once
#include "harness/results/rank_test.h"
#include "harness/results/time_samples.h"

#define TIME_AXES 3
enum time_verdict { TIME_NOT_MEASURED, TIME_SAME, TIME_FASTER, TIME_SLOWER, TIME_CANNOT_TELL };
// "not measured", "same", "faster", "slower", "cannot tell".
const char *time_verdict_name(enum time_verdict verdict);

struct time_trial {
    struct time_samples base, new;
    struct time_samples clock_base, clock_new; // of processor times of several threads: by the clock; else none
    const char *groups[TIME_AXES];             // its method, context and dtype
    const char *unusable;                      // NULL, or why the two may not be compared
    bool processor_time;                       // they are times of the processors, beside other programs
    // What follows is filled in.
    enum time_verdict verdict;
    const char *reason; // of cannot tell, else ""
    bool judged;        // the samples allow for a ratio; the rest holds then
    bool unsteady;      // they do not, for they scatter
    struct shift ratio; // new / base
    double p;
    bool waited; // the same by processor time, but slower by the clock
    // By what is known of all trials (time_change.h):
    bool regression, open; // by itself, or slower in a group that is one; open: looks like it, but is not proven
    double p_holm;         // p, corrected for the number of trials
};

// What logarithms of ratios say, as ratios.
struct shift time_shift_as_ratio(struct shift logs);
// Slower, same, faster or cannot tell, by the rule above.
enum time_verdict time_verdict_of(struct shift ratio, double threshold);
// Judges the trial by itself: all but p_holm, regression and open, which are cleared. threshold: 0.07 is 7 %.
void time_trial_judge(struct time_trial *trial, double threshold);
