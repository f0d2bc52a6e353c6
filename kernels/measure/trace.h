// Trace: what a rank without data says to the others, and what its device does between one word and the next. The
// traces of all ranks together tell when each has to wait (harness/plan/rank_times.h).
#pragma once
#include "kernels/device/device.h"

enum trace_kind {
    TRACE_SEND,    // a message to one rank sets out; nobody waits
    TRACE_RECEIVE, // there is room for one of one rank
    TRACE_MEET,    // all of a group exchange something, once the last has come
    TRACE_WAIT     // until a message is gone, or there, or such an exchange is done
};

struct trace_event {
    enum trace_kind kind;
    double busy_s;                     // of the rank since the event before
    double sent_bytes, received_bytes; // to and from all others
    size_t peer;                       // of a message its other end, by number of all ranks
    size_t stride, size;               // of a meeting: each such group has its ranks `stride` apart
    size_t event;                      // of a wait, which
};

// The first rank of the group that a rank is in, where all are in groups of this kind, one beside the other.
static inline size_t trace_group(size_t rank, size_t stride, size_t size)
{
    size_t block = stride * size;
    return rank / block * block + rank % stride;
}

struct trace {
    size_t count, capacity;
    struct trace_event *events;
    double noted_s; // of the device's clock
    double rest_s;  // after the last event
};

// Of a device whose clock begins anew.
void trace_begin(struct trace *trace);
// The event's number. Its busy_s is set here.
size_t trace_add(struct trace *trace, const struct device *device, struct trace_event event);
// The power limit slows all of the step down.
void trace_end(struct trace *trace, const struct device *device);
void trace_free(struct trace *trace);
