// Machine load: what else a machine did while a trial's samples were timed, from the kernel's counts of processor
// time.
#pragma once
#include "harness/record/record.h"

// The kernel counts what others ran in ticks of 10 ms: of samples that were shorter together it tells only how long
// this process's own threads waited, which it counts in nanoseconds.
#define MACHINE_LOAD_MIN_S 0.2

// Processor time so far, in seconds; taken: false where the kernel tells none (/proc/stat).
struct machine_time {
    bool taken;
    double wall_s, busy_s, stolen_s, own_s;
    double
        waited_s; // of this process's threads together (/proc/self/task/*/schedstat); NAN: the kernel does not tell
    double load;  // 1-minute load average; NAN: not known
};
struct machine_time machine_time_take(void);
// busy_s and stolen_s of a text as that of /proc/stat, whose counts are ticks_per_s a second. False if it is none.
bool machine_time_read(struct machine_time *time, const char *text, double ticks_per_s);
// The machine's load between two times; NAN: not known. cores: that it has; usable: those that this process may
// keep busy, on which `threads` of its own are at work. More threads than these wait for each other, and tell
// nothing of others.
struct record_load machine_load_between(const struct machine_time *start, const struct machine_time *end,
                                        size_t cores, size_t usable, size_t threads);
