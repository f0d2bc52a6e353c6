// Rank times: when each of several ranks is done, and how long it waits, from their traces
// (kernels/measure/trace.h) and the links between them. An estimate: devices run at their profile's rates, links
// have their rate for messages of any length, and each pair of ranks has a link of its own.
#pragma once
#include "harness/profile/interconnect.h"
#include "kernels/measure/trace.h"

// A rank that represents all with the same work. Ranks are in increasing order and only communicate among
// themselves.
struct timed_rank {
    size_t rank,
        source; // its trace is that of rank `source`, which communicates equally with ranks at equal distances
    const struct trace *trace; // borrowed
    double busy_s, end_s;      // computing time; end time
};

// Sets busy_s and end_s, and the seconds until the last rank is done. Returns false and a status on a deadlock.
//
// A message starts when it is sent, its receiver is ready, and the previous one between the two has been sent; it
// takes bytes / rate, and arrives a latency later. A collective starts when its last rank has arrived and finished
// earlier collectives, and takes each rank the time of its bytes over its slowest level (interconnect_seconds).
bool rank_times(struct timed_rank *ranks, size_t count, const struct interconnect *interconnect, double *seconds,
                struct status *status);
// Minimum waiting time of the traced rank, however early all others arrive: the duration of collectives that it
// waits for at once.
double rank_waits_min_s(const struct trace *trace, size_t rank, const struct interconnect *interconnect);
