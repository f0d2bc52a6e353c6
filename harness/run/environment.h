// Environment: what the libraries read from it as they are loaded, settled before anything is measured.
#pragma once

// Starts this program anew with what is missing set; returns when nothing is, or when that failed. A value that the
// user has set stands.
// - OPENBLAS_CORETYPE: OpenBLAS falls back to its oldest kernels (Prescott, SSE3) on CPUs newer than it, several
// times
//   slower than what such a CPU can do. Then: the kernels of the widest vectors the CPU has.
// - OMP_WAIT_POLICY=passive: threads that spin at barriers cost nothing on an idle machine, and on a shared one
// hold the
//   core that the thread they wait for needs; steps then take up to tens of times as long.
void environment_settle(char **argv);
