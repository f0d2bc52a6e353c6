// Environment: what the libraries read from it as they are loaded, settled before anything is measured.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Before any library's own code runs, this file ends the program with a message and exit code 2 if its address
// space has no room for the buffers that OpenBLAS takes as it is loaded: that would look for some for ever.

// Opens stdin, stdout and stderr to /dev/null where the program was started without them: else a file opened later
// would get their number, and what is printed. Called first of all.
void environment_open_streams(void);

// Starts this program anew with what is missing set; returns when nothing is, or when that failed. A value that the
// user has set stands. False, and a message on stderr, where a step would end without a word: the stack is limited
// to less than it needs, or there are to be more threads than the OpenMP library can start.
// - OPENBLAS_CORETYPE: OpenBLAS falls back to its oldest kernels (Prescott, SSE3) on CPUs newer than it, several
//   times slower than what such a CPU can do. Then: the kernels of the widest vectors the CPU has.
// - GOMP_SPINCOUNT: how long a thread spins at a barrier before it sleeps, by what else runs now (spin_count.h).
//   Whatever this program starts waits in the same way.
bool environment_settle(char **argv);
// Chooses GOMP_SPINCOUNT anew, for the processes that are started next, so many at a time; what the user has set
// stands.
void environment_choose_spins(size_t processes);
// Threads of each of so many processes that share this machine's cores: what OMP_NUM_THREADS says, or as many as
// each has cores of its own, at least one.
size_t environment_threads(size_t processes);

// The program's exit code, on its way out of main. A library that gives up, as libgomp does without memory, says
// why and exits with 1 by itself, which here would mean that a check failed: that becomes a 2.
int environment_leave(int exit_code);
