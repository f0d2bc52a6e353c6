// Spin count: how many turns a thread spins at a barrier before it sleeps (GOMP_SPINCOUNT), by what else runs.
//
// Not to spin costs a wake-up per operation: small steps on an idle machine take a fifth longer, and six times as
// long where a virtual machine halts a processor that sleeps. To spin beside other work takes the processor that
// the thread waited for needs: such steps then take up to thirty times as long, without spinning up to five.
#pragma once
#include <stddef.h>

#define SPIN_COUNT 5000

// Of so many processes of so many threads each, on so many cores that they share (cores.h): 0 where these are fewer
// than their threads, or other programs keep some of them busy, else SPIN_COUNT. Asks /proc/loadavg, where others
// are busy for 8 ms: what they do for a moment counts for nothing.
size_t spin_count_choose(size_t processes, size_t threads, size_t cores);
// How many threads of other processes a text as that of /proc/loadavg says are running or ready to; 0 if it is
// none.
size_t spin_count_others(const char *loadavg);
