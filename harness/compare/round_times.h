// Round times: what a trial took in each round of two builds, for the rule of time (time_change.h).
#pragma once
#include "harness/results/record_lists.h"

struct round_times {
    size_t rounds;        // that both have: of either the last so many that can be held against each other
    size_t left_out;      // records of either that are not among them
    double *base, *new;   // [rounds]: logarithms, of ms; base is to be freed, new lies in it
    bool processor_time;  // of what the processors took, for other programs disturbed the samples
    const char *unusable; // why there are none; NULL
};

// Takes the times of two lists whose records are of one trial. Processor times stand in for the samples where
// something disturbed any of them, every record has them, and threads do not spin while they wait; waits are not in
// them. clock: not even then.
struct round_times round_times_take(const struct record_list *base, const struct record_list *new, bool clock);
