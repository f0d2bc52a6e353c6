// Event counter: how often something happened in this process so far, in all its threads and those that they start,
// as the kernel counts it (perf_event_open), without what the kernel itself did for them.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Zeroed: nothing is counted.
struct event_counter {
    int *files; // [count], of a thread each
    size_t count;
};

// Begins to count an event by its numbers in linux/perf_event.h. False, and nothing is counted, where nobody counts
// it: many hosts keep the processor's counters from their guests, and a kernel or a sandbox may refuse them.
// Release with event_counter_close.
bool event_counter_open(struct event_counter *counter, uint32_t type, uint64_t event);
void event_counter_close(struct event_counter *counter);
// NaN: not known; also where the processor, with more to count than it can, counted for a part of the time alone.
double event_counter_read(const struct event_counter *counter);
