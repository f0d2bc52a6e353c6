// Provenance: what a number needs beside it to be made again: the program's revision and compiler, the libraries,
// the machine and its clocks.
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct provenance {
    const char *version, *revision, *compiler, *flags;
    int dirty;      // 1: built from changed files, 0: not, -1: unknown
    char blas[320]; // name, version, build and the core it chose; in bf16 also what multiplies that
    char cpu[128];
    char card[512]; // the device's own words: card, driver, libraries; empty on the CPU
    char kernel[256];
    size_t host_memory_bytes;
    int threads;
    double spin_count;                        // of each at a barrier; NaN: the OpenMP library's own
    double clock_mhz_before, clock_mhz_after; // of the fastest core; 0: the machine does not say
    char time[32];                            // UTC, ISO 8601
};

// Fills in everything but card, clock_mhz_after and what the device says of itself.
void provenance_take(struct provenance *provenance);
// The name of the kernels that OpenBLAS chose for this CPU.
const char *provenance_blas_core(void);
// The clock of the fastest core now, 0 if the machine does not say.
double provenance_clock_mhz(void);
