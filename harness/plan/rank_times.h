// Rank times: when each of several ranks is done, and how long it waits, from what each of them says and does
// (kernels/measure/trace.h) and from the links between them. An estimate: devices are as fast as their profile
// says, links carry what they say at any length of message, and each pair of ranks has its link to itself.
#pragma once
#include "harness/profile/interconnect.h"
#include "kernels/measure/trace.h"

// A rank that stands for others that walk as it does. Ranks in rising order; messages are between these alone.
struct timed_rank {
    size_t rank, source;       // its trace is that of rank `walked`, which says the same to ranks as far away
    const struct trace *trace; // borrowed
    double busy_s, end_s;      // computes so long; is done
};

// Fills in busy_s and end_s. The seconds until the last is done. False and a status if they wait for each other.
//
// A message begins when it is sent, when its receiver has room for it, and when the one before it between the two
// has gone; it has gone after bytes / rate, and is there a latency later. A meeting begins when the last of its
// ranks has come and is done with its meetings before, and takes each as long as its bytes, over the slowest of its
// levels (links_seconds).
bool rank_times(struct timed_rank *ranks, size_t count, const struct interconnect *interconnect, double *seconds,
                struct status *status);
// How long the rank whose trace it is waits at least, however soon all others come: of meetings that it waits for
// at once, as long as they take.
double rank_waits_min_s(const struct trace *trace, size_t rank, const struct interconnect *interconnect);
