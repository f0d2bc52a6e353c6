// Spin count: how often a thread spins at a barrier before it sleeps (GOMP_SPINCOUNT), chosen by the machine's
// load.
//
// Without spinning each operation costs a wake-up: small steps on an idle machine take a fifth longer, and six
// times as long if a virtual machine halts sleeping processors. Spinning beside other work takes processors from
// the threads waited for: steps take up to thirty times as long, without spinning up to five.
#pragma once
#include <stddef.h>

#define SPIN_COUNT 5000

// The count for `processes` processes of `threads` threads each on `cores` shared cores (cores.h): 0 if there are
// fewer cores than threads or other programs keep some busy, else SPIN_COUNT. Samples /proc/loadavg for 8 ms if
// others are busy, to ignore momentary work.
size_t spin_count_choose(size_t processes, size_t threads, size_t cores);
// Threads of other processes that are running or ready, from a text like /proc/loadavg; 0 for other texts.
size_t spin_count_others(const char *loadavg);
