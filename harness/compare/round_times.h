// Round times: what a trial took in each round of two builds, for the rule of time (time_change.h).
#pragma once
#include "harness/record/record_lists.h"

struct round_times {
    size_t rounds;               // that both have
    size_t left_out;             // records of either that are not among them
    uint64_t left_rounds[2];     // of BASE and NEW: bit i is round i + 1, the last bit all from 64 on
    double *base, *new, *places; // [rounds]: logarithms, of ms, and time_change.h's places; base is to be freed,
                                 // the others lie in it
    bool processor_time;         // of what the processors took, for other programs disturbed the samples
    const char *unusable;        // why there are none; NULL
};

// Takes the times of two lists whose records are of one trial. Rounds of the same number belong together, the last
// ones where several have it; if a record has no number, the last of either side, those before them, and so on.
// Processor times stand in for the samples where
// something disturbed any of them, every record has them, and threads do not spin while they wait; waits are not in
// them. clock: not even then.
struct round_times round_times_take(const struct record_list *base, const struct record_list *new, bool clock);
