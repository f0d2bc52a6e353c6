// Ops: the fronts of the device table. Each checks the shapes (a wrong one is a bug: abort), counts FLOPs, bytes
// and launches, and calls the device; GEMM and attention over tensors longer than the device takes go in parts,
// each of which is counted. After the device's status has failed each does nothing. The formulas and gradient
// contracts are those of the table in device.h.
#pragma once
#include "kernels/base/device.h"

// A tensor of [rows, cols], not initialised. With a failed device or no room, its data is NULL.
struct tensor tensor_new(struct device *device, size_t rows, size_t cols, enum dtype dtype, enum category category);
// Releases the tensor's memory and makes it no tensor. Views are never released.
void tensor_free(struct device *device, struct tensor *t);
// Host values in f64, converted to the tensor's dtype on the way, and back. values: rows * cols numbers. On a
// device without data neither does anything.
void tensor_write(struct device *device, struct tensor t, const double *values);
void tensor_read(struct device *device, struct tensor t, double *values);

void op_upload(struct device *device, struct tensor t, const void *src);
void op_download(struct device *device, void *dst, struct tensor t);
void op_random_normal(struct device *device, struct tensor t, struct random random, double mean, double deviation,
                      enum dtype rounding);
void op_zero(struct device *device, struct tensor t);
void op_copy(struct device *device, struct tensor dst, struct tensor src);
void op_scale(struct device *device, struct tensor t, double factor);
void op_gemm(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a, struct tensor b,
             enum transpose transpose_b, double alpha, double beta);
void op_bias_forward(struct device *device, struct tensor y, struct tensor bias);
void op_bias_backward(struct device *device, struct tensor grad_bias, struct tensor grad_y);
void op_rmsnorm_forward(struct device *device, struct tensor y, struct tensor rstd, struct tensor x,
                        struct tensor gain, double epsilon);
void op_rmsnorm_backward(struct device *device, struct tensor grad_x, bool accumulate, struct tensor grad_gain,
                         struct tensor grad_y, struct tensor x, struct tensor gain, struct tensor rstd);
void op_rope(struct device *device, struct tensor x, struct tensor frequencies, size_t start, size_t batch,
             int direction);
void op_attention_forward(struct device *device, struct attention_shape shape, struct tensor o,
                          struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v);
// The workspace is taken from the arena and given back here.
void op_attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                           const struct key_segment *segments, size_t segment_count, struct tensor grad_o,
                           struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                           struct tensor v);
void op_swiglu_forward(struct device *device, struct tensor y, struct tensor gate, struct tensor up);
void op_swiglu_backward(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y);
void op_embedding_forward(struct device *device, struct tensor y, struct tensor table, struct tensor ids);
void op_embedding_backward(struct device *device, struct tensor grad_table, struct tensor grad_y,
                           struct tensor ids);
void op_cross_entropy(struct device *device, struct tensor logits, struct tensor targets, struct tensor loss,
                      double loss_weight, double grad_weight);
void op_adamw(struct device *device, struct tensor w, struct tensor g, struct tensor m, struct tensor v,
              double rate, double beta1, double beta2, double epsilon, double decay, size_t t);
