// Rank walks: the walks of a trial's ranks without data, one rank after another. Those that walk alike are walked
// once; with links what they say tells how long they take together.
#pragma once
#include "harness/step/setup.h"
#include "kernels/measure/trace.h"

struct rank_traces {
    const struct trial *trial;
    const struct interconnect *interconnect; // NULL: nobody asks for a time
    size_t samples;                          // at most, of each rank
    // Walks the comm's rank. traces: [samples], to be filled with what it says; NULL: nobody asks. Its setup, open
    // until the next is walked; NULL: it failed.
    const struct setup *(*trace)(void *tracer, struct comm comm, struct trace *traces);
    void *tracer;
    // Between open and close:
    size_t count, replicas;
    size_t *source;           // [count] the rank that was walked in place of each
    struct trace **traces;    // [count] of those that were, of each sample; else NULL
    const struct setup *open; // of the last
};

// From what stands above. Walks every rank, or one like it, from the last to the first. False: a walk failed.
// Release with rank_walks_close, also after a failure.
bool rank_traces_open(struct rank_traces *traced);
// The seconds of a sample. busy_s: [count], of each rank, or of that which stands for it, so long it computes.
// False and a status.
bool rank_traces_time(const struct rank_traces *traced, size_t sample, double *seconds, double *busy_s,
                      struct status *status);
void rank_traces_close(struct rank_traces *traced);
