// oneDNN: its GEMM of bf16 and of f32, for processors that it serves better than the BLAS does. The library is
// loaded when asked for.
#pragma once
#include "kernels/cpu/gemm_tile.h"

struct onednn;
// For products of this dtype. NULL where there is no oneDNN 2, where this program was built without its header, or
// where the processor (or ONEDNN_MAX_CPU_ISA) has not what it takes to beat the BLAS in f32: bf16 instructions for
// bf16, AVX-512 for f32. Release with onednn_close.
struct onednn *onednn_open(enum dtype dtype);
void onednn_close(struct onednn *onednn);
// "oneDNN 2.6.3, AMX"
const char *onednn_description(const struct onednn *onednn);
// Returns false if oneDNN does not serve this shape; c is then untouched. May be called by many threads at once.
bool onednn_gemm(struct onednn *onednn, const struct gemm_tile *tile);
// The same of f32 alone, opened for f32; k > 0. One thread's work where OpenMP gives it one.
void onednn_sgemm(struct onednn *onednn, const struct gemm_tile *tile);
