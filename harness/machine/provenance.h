// Provenance: what is needed to reproduce a number: the program's revision and compiler, the libraries, the machine
// and its clocks.
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct provenance {
    const char *version, *revision, *compiler, *flags;
    int dirty;      // 1: built from changed files, 0: not, -1: unknown
    char blas[320]; // name, version, build and chosen core; for bf16 also the library that multiplies it
    char cpu[128];
    char card[512]; // as the device reports it: card, driver, libraries; empty on the CPU
    char kernel[256];
    size_t host_memory_bytes;
    int threads;
    double spin_count;                        // of each thread at a barrier; NaN: the OpenMP library's default
    double clock_mhz_before, clock_mhz_after; // of the fastest core; 0: unknown
    char time[32];                            // UTC, ISO 8601
};

// Fills in everything except card, clock_mhz_after and the device's own facts.
void provenance_take(struct provenance *provenance);
// The kernels that OpenBLAS chose for this CPU.
const char *provenance_blas_core(void);
// The current clock of the fastest core; 0 if unknown.
double provenance_clock_mhz(void);
