// Time samples: what one run or several measured of one cell.
#pragma once
#include <stddef.h>

#define TIME_DISTURBED 1.1

struct time_run {
    double *ms; // [count], all > 0
    size_t count;
};

// What counts of them. Whatever disturbs a machine adds time and takes none away: of the samples of several runs
// the faster half counts, but four at least.
struct time_samples {
    const double *ms;   // [count], ascending if there are several runs
    size_t count, runs; // of runs, those that were pooled
    size_t taken;       // samples, before half of them were left out
    size_t disturbed;   // runs whose median is more than TIME_DISTURBED times that of the fastest
};

// The runs' samples must lie one after the other; they are sorted there, and the result borrows them.
struct time_samples time_samples_pool(const struct time_run *runs, size_t run_count);
