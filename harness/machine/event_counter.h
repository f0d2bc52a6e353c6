// Event counter: how often a hardware event has occurred in all threads of this process, counted by the kernel
// (perf_event_open), without events inside the kernel.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Zeroed: counts nothing.
struct event_counter {
    int *files; // [count], one per thread
    size_t count;
};

// Begins to count an event, given by its numbers in linux/perf_event.h. Returns false if counting is not possible:
// many hosts hide the processor's counters from guests, and a kernel or sandbox may refuse. Release with
// event_counter_close.
bool event_counter_open(struct event_counter *counter, uint32_t type, uint64_t event);
void event_counter_close(struct event_counter *counter);
// NaN: unknown, also if the processor had too many events to count and multiplexed this one.
double event_counter_read(const struct event_counter *counter);
