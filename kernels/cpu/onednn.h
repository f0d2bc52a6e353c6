// oneDNN: its bf16 and f32 GEMM, for processors on which it is faster than the BLAS. The library is loaded on
// demand.
#pragma once
#include "kernels/cpu/gemm_tile.h"

struct onednn;
// Opens the library for products of this dtype. Returns NULL without oneDNN 2, if this program was built without
// its header, or if the processor (or ONEDNN_MAX_CPU_ISA) lacks the instructions with which it beats the BLAS: bf16
// instructions for bf16, AVX-512 for f32. Release with onednn_close.
struct onednn *onednn_open(enum dtype dtype);
void onednn_close(struct onednn *onednn);
// "oneDNN 2.6.3, AMX"
const char *onednn_description(const struct onednn *onednn);
// Returns false if oneDNN does not support this shape; c is then unchanged. Thread-safe.
bool onednn_gemm(struct onednn *onednn, const struct gemm_tile *tile);
// The same for f32; k > 0. Single-threaded if OpenMP has one thread.
void onednn_sgemm(struct onednn *onednn, const struct gemm_tile *tile);
