// Machine load: the load by other processes while a trial's samples were timed, from the kernel's processor time
// counters.
#pragma once
#include "harness/record/record.h"

// The kernel counts other processes' time in ticks of 10 ms. For shorter samples only the waiting time of this
// process's own threads is known, which is counted in nanoseconds.
#define MACHINE_LOAD_MIN_S 0.2

// Processor time so far, in seconds; taken: false if the kernel does not provide it (/proc/stat).
struct machine_time {
    bool taken;
    double wall_s, busy_s, stolen_s, own_s;
    double waited_s; // of this process's threads together (/proc/self/task/*/schedstat); NAN: unknown
    double load;     // 1-minute load average; NAN: not known
};
struct machine_time machine_time_take(void);
// Reads busy_s and stolen_s from a text like /proc/stat, with ticks_per_s ticks a second. Returns false for other
// texts.
bool machine_time_read(struct machine_time *time, const char *text, double ticks_per_s);
// The machine's load between two times; NAN: unknown. cores: of the machine; usable: those this process may use, on
// which its `threads` threads run. More threads than these wait for each other, which says nothing about other
// processes.
struct record_load machine_load_between(const struct machine_time *start, const struct machine_time *end,
                                        size_t cores, size_t usable, size_t threads);
