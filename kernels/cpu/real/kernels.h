// The CPU device's operations, one dtype at a time; contracts in kernels/base/device.h.
// Work is cut into pieces by shape alone, never by the number of threads, and each piece is summed by one thread in
// one order: the same bits on any number of threads. Scratch of a piece (tiles, at most 512 KiB) lives on the
// stack, the CPU's counterpart of a GPU's shared memory; everything larger comes from the arena.
#pragma once
#include "kernels/base/device.h"
#include "kernels/cpu/real/real.h"

void NAME(gemm)(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                struct tensor b, enum transpose transpose_b, double alpha, double beta);
void NAME(bias_forward)(struct device *device, struct tensor y, struct tensor bias);
void NAME(bias_backward)(struct device *device, struct tensor grad_bias, struct tensor grad_y);
void NAME(rmsnorm_forward)(struct device *device, struct tensor y, struct tensor rstd, struct tensor x,
                           struct tensor gain, double epsilon);
void NAME(rmsnorm_backward)(struct device *device, struct tensor grad_x, bool accumulate, struct tensor grad_gain,
                            struct tensor grad_y, struct tensor x, struct tensor gain, struct tensor rstd);
void NAME(rope)(struct device *device, struct tensor x, struct tensor frequencies, size_t start, size_t batch,
                int direction);
void NAME(attention_forward)(struct device *device, struct attention_shape shape, struct tensor o,
                             struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v);
void NAME(attention_backward)(struct device *device, struct attention_shape shape, struct tensor grad_q,
                              const struct key_segment *segments, size_t segment_count, struct tensor grad_o,
                              struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                              struct tensor v, struct tensor workspace);
size_t NAME(attention_backward_workspace)(const struct device *device, struct attention_shape shape);
void NAME(swiglu_forward)(struct device *device, struct tensor y, struct tensor gate, struct tensor up);
void NAME(swiglu_backward)(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y);
void NAME(embedding_forward)(struct device *device, struct tensor y, struct tensor table, struct tensor ids);
void NAME(embedding_backward)(struct device *device, struct tensor grad_table, struct tensor grad_y,
                              struct tensor ids);
void NAME(cross_entropy)(struct device *device, struct tensor logits, struct tensor targets, struct tensor loss,
                         double loss_weight, double grad_weight);
void NAME(scale)(struct device *device, struct tensor t, double factor);
void NAME(adamw)(struct device *device, struct tensor w, struct tensor g, struct tensor m, struct tensor v,
                 double rate, double beta1, double beta2, double epsilon, double decay, size_t t);
