// Trace: the communication of a rank without data, and its device's busy time between events. The traces of all
// ranks determine when each waits (harness/plan/rank_times.h).
#pragma once
#include "kernels/device/device.h"

enum trace_kind {
    TRACE_SEND,    // starts a message to one rank, without waiting
    TRACE_RECEIVE, // posts a receive from one rank
    TRACE_MEET,    // a collective of a group, complete when the last rank has come
    TRACE_WAIT     // waits for a message or a collective to complete
};

struct trace_event {
    enum trace_kind kind;
    double busy_s;                     // of the rank since the previous event
    double sent_bytes, received_bytes; // to and from all others
    size_t peer;                       // of a message: world rank of the other end
    size_t stride, size;               // of a collective: every such group has ranks `stride` apart
    size_t event;                      // of a wait: the event waited for
};

// First rank of a rank's group, if groups of this kind cover all ranks.
static inline size_t trace_group(size_t rank, size_t stride, size_t size)
{
    size_t block = stride * size;
    return rank / block * block + rank % stride;
}

struct trace {
    size_t count, capacity;
    struct trace_event *events;
    double noted_s; // device clock at the last event
    double rest_s;  // after the last event
};

// Call when the device's clock is reset.
void trace_begin(struct trace *trace);
// Sets the event's busy_s and returns its number.
size_t trace_add(struct trace *trace, const struct device *device, struct trace_event event);
// Applies the power limit to the whole step.
void trace_end(struct trace *trace, const struct device *device);
void trace_free(struct trace *trace);
