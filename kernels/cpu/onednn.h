// oneDNN: its GEMM of bf16, for processors that have instructions for it. The library is loaded when asked for.
#pragma once
#include "kernels/cpu/bf16_gemm.h"

struct onednn;
// NULL where there is no oneDNN 2, where this program was built without its header, or where the processor has no
// bf16 instructions (or ONEDNN_MAX_CPU_ISA=AVX512_CORE hides them): oneDNN would then be slower than the BLAS in
// f32. Release with onednn_close.
struct onednn *onednn_open(void);
void onednn_close(struct onednn *onednn);
// "oneDNN 2.6.3, amx"
const char *onednn_description(const struct onednn *onednn);
// Returns false if oneDNN does not serve this shape; c is then untouched. May be called by many threads at once.
bool onednn_gemm(struct onednn *onednn, const struct gemm_tile *tile);
