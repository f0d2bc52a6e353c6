// BLAS core: OpenBLAS falls back to its oldest kernels (Prescott, SSE3) on CPUs that are newer than it; several
// times slower than what such a CPU can do, and no ground to measure anything on.
#pragma once

// Where that has happened, starts this program anew with OPENBLAS_CORETYPE set to the kernels of the widest vectors
// the CPU has, which OpenBLAS reads only as it is loaded. A value that the user has set stands. Otherwise returns.
void blas_core_choose(char **argv);
