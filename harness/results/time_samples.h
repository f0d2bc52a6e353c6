// Time samples: what one run or several measured of one trial.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define TIME_DISTURBED 1.1

struct time_run {
    double *ms; // [count], all > 0; of draws: of draw 0, 1, ...
    size_t count;
};

// What counts of them. Whatever disturbs a machine adds time and takes none away: of the samples of several runs
// the faster half counts, but four at least. Of samples that each walked a draw of columns it is the faster half of
// each draw, for the faster half of all would be the small draws.
struct time_samples {
    const double *ms;   // [count], ascending if there are several runs; of draws: in each draw, one after the other
    size_t count, runs; // of runs, those that were pooled
    size_t draws;       // in which there are equally many samples; 0: all samples are of the same step
    size_t rounds;      // likewise, one round after the other as they were taken; 0: they are pooled
    size_t taken;       // samples, before half of them were left out
    size_t disturbed;   // runs whose median is more than TIME_DISTURBED times that of the fastest
};

// The runs' samples must lie one after the other; they are sorted there, and the result borrows them. drawn: sample
// i of every run walked draw i; those count that all runs have.
struct time_samples time_samples_pool(const struct time_run *runs, size_t run_count, bool drawn);
// Runs that were taken in turn with as many of another build, round by round: what changes about the machine from
// round to round does so for both, so that all samples count, but no more of a run than of the shortest. run_count
// > 0.
struct time_samples time_samples_rounds(const struct time_run *runs, size_t run_count);
// Two pools of one trial are left the draws that both have.
void time_samples_match(struct time_samples *a, struct time_samples *b);
// What one step takes, ms: the median, or of draws the mean. count > 0.
double time_samples_middle(struct time_samples samples);
