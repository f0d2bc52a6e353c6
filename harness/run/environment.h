// Environment: what the libraries read from it as they are loaded, settled before anything is measured.
#pragma once

// Opens stdin, stdout and stderr to /dev/null where the program was started without them: else a file opened later
// would get their number, and what is printed. Called first of all.
void environment_open_streams(void);

// Starts this program anew with what is missing set; returns when nothing is, or when that failed. A value that the
// user has set stands.
// - OPENBLAS_CORETYPE: OpenBLAS falls back to its oldest kernels (Prescott, SSE3) on CPUs newer than it, several
//   times slower than what such a CPU can do. Then: the kernels of the widest vectors the CPU has.
// - GOMP_SPINCOUNT=5000: how long a thread spins at a barrier before it sleeps. The default, sixty times as
//   long, holds the core that the thread waited for needs on a shared machine: steps then take up to tens of times
//   as long. Not to spin at all costs a wake-up per operation: steps in small chunks then take a fifth longer.
void environment_settle(char **argv);
