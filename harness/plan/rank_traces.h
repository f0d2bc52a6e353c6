// Rank traces: runs a trial's ranks without data, one after another. Ranks with equal work run once; with an
// interconnect their traces determine the time of all.
#pragma once
#include "harness/step/setup.h"
#include "kernels/measure/trace.h"

struct rank_traces {
    const struct trial *trial;
    const struct interconnect *interconnect; // NULL: no times
    size_t samples;                          // maximum per rank
    // Runs the comm's rank. traces: [samples], to be filled; NULL: not recorded. Returns its setup, open until the
    // next call; NULL: failed.
    const struct setup *(*trace)(void *tracer, struct comm comm, struct trace *traces);
    void *tracer;
    // Between open and close:
    size_t count, replicas;
    size_t *source;           // [count] the rank that was run in place of each
    struct trace **traces;    // [count] of ranks that ran, per sample; else NULL
    const struct setup *open; // of the latest rank
};

// Runs every distinct rank, from the last to the first, with the members above set. Returns false if one failed.
// Release with rank_traces_close, also after a failure.
bool rank_traces_open(struct rank_traces *traced);
// The seconds of a sample. busy_s: [count], each rank's computing time. Returns false and a status on failure.
bool rank_traces_time(const struct rank_traces *traced, size_t sample, double *seconds, double *busy_s,
                      struct status *status);
void rank_traces_close(struct rank_traces *traced);
