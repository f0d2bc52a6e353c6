// Round times: a trial's times in each round of two builds, for the rule of time (time_change.h).
#pragma once
#include "harness/record/record_lists.h"

struct round_times {
    size_t rounds;           // on both sides
    size_t left_out;         // unpaired records of either side
    uint64_t left_rounds[2]; // of BASE and NEW: bit i is round i + 1, the last bit all from 64 on
    // [rounds], from the last backwards: logarithms of ms, and time_change.h's places, which without numbers count
    // from the last. Free base, which holds the others.
    double *base, *new, *places;
    bool processor_time;  // processor time, because other programs disturbed the samples
    const char *unusable; // why there are none, or NULL
};

// Takes the times of two lists of records of one trial. Rounds with equal numbers are paired, the last ones if
// several have it; records without numbers are paired from the last backwards. Processor times replace samples if
// any was disturbed, every record has them, and threads do not spin while waiting; they exclude waits. clock:
// never.
struct round_times round_times_take(const struct record_list *base, const struct record_list *new, bool clock);
