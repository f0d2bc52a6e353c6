// Environment: settles the environment variables that libraries read at load time, before anything is measured.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// This file also ends the program, before any library's code runs, with a message and exit code 2 if the address
// space is too small for OpenBLAS's buffers: OpenBLAS would retry for ever.

// Opens missing stdin, stdout and stderr to /dev/null. Otherwise a file opened later would get their number and
// receive the output. Call first.
void environment_open_streams(void);

// Sets missing variables and restarts this program; returns if none is missing or the restart failed. Values that
// the user set stay. Returns false and prints a message on stderr if a step would crash silently: the stack is too
// small, or there are more threads than the OpenMP library supports.
// - OPENBLAS_CORETYPE: on CPUs newer than itself OpenBLAS uses its oldest kernels (Prescott, SSE3), several times
//   slower. Set to the kernels of the CPU's widest vectors.
// - GOMP_SPINCOUNT: how long a thread spins at a barrier before it sleeps, chosen by the machine's load
//   (spin_count.h). Child processes inherit it.
bool environment_settle(char **argv);
// Chooses GOMP_SPINCOUNT again for the next child processes, of which `processes` run at once. A value that the
// user set stays.
void environment_choose_spins(size_t processes);
// Threads per process if `processes` processes share this machine's cores: OMP_NUM_THREADS, or an equal share of
// the cores, at least one.
size_t environment_threads(size_t processes);

// Maps the program's exit code as main returns. A library that gives up (libgomp without memory) prints its reason
// and exits with 1, which here means a failed check; that becomes 2.
int environment_leave(int exit_code);
