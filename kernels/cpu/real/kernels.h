// The CPU device's operations, one dtype at a time; contracts in kernels/base/device.h.
// Work is cut into pieces by shape alone, never by the number of threads, and each piece is summed by one thread in
// one order: the same bits on any number of threads. Scratch of a piece (tiles, at most 512 KiB) lives on the
// stack, the CPU's counterpart of a GPU's shared memory; everything larger comes from the arena.
#pragma once
#include "kernels/base/device.h"
#include "kernels/cpu/real/real.h"

gemm_op NAME(gemm);
bias_forward_op NAME(bias_forward);
bias_backward_op NAME(bias_backward);
rmsnorm_forward_op NAME(rmsnorm_forward);
rmsnorm_backward_op NAME(rmsnorm_backward);
rope_op NAME(rope);
attention_forward_op NAME(attention_forward);
attention_backward_op NAME(attention_backward);
size_t NAME(attention_backward_workspace)(const struct device *device, struct attention_shape shape,
                                          const struct key_segment *segments, size_t segment_count);
swiglu_forward_op NAME(swiglu_forward);
swiglu_backward_op NAME(swiglu_backward);
embedding_forward_op NAME(embedding_forward);
embedding_backward_op NAME(embedding_backward);
cross_entropy_op NAME(cross_entropy);
copy_op NAME(copy);
scale_op NAME(scale);
adamw_op NAME(adamw);
