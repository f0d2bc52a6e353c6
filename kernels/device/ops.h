// Ops: the fronts of the device table. Each checks shapes (a mismatch is a bug: abort), counts FLOPs, bytes and
// launches, and calls the device. GEMM and attention cut tensors longer than the device takes and count each part.
// After a failure of the device they do nothing. Signatures, formulas and gradient contracts: device.h.
#pragma once
#include "kernels/device/device.h"

// An uninitialised device tensor [rows, cols]. Its data is NULL if the device has failed or has no room.
struct tensor tensor_new(struct device *device, size_t rows, size_t cols, enum dtype dtype, enum category category);
// The same in a given place.
struct tensor tensor_new_in(struct device *device, enum place place, size_t rows, size_t cols, enum dtype dtype,
                            enum category category);
// A device tensor like a host tensor that is copied in; the copy waits until its memory is free
// (kernels/device/queue.h).
struct tensor tensor_copy_in(struct device *device, struct tensor host);
// Releases the tensor's memory and clears it. Views are never released.
void tensor_free(struct device *device, struct tensor *t);
// Converts f64 host values to the tensor's dtype, and back. values: rows * cols numbers. Without data does nothing.
void tensor_write(struct device *device, struct tensor t, const double *values);
void tensor_read(struct device *device, struct tensor t, double *values);

// For tensors in either place.
void op_upload(struct device *device, struct tensor t, const void *src);
void op_download(struct device *device, void *dst, struct tensor t);
#define OPERATION(name) name##_op op_##name;
DEVICE_OPERATIONS_WITHOUT_WORKSPACE(OPERATION)
OPERATION(low_rank)
#undef OPERATION
// Returns false and a status (unsupported) if heads of so many numbers are longer than the device's attention
// takes.
bool attention_holds_heads(struct device *device, size_t longest);
// FLOPs of delta_rule_forward of a run, with o.
double delta_forward_flops(const struct delta_shape *shape);
// Both allocate their workspace in the arena and release it.
void op_attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                           bool accumulate, const struct key_segment *segments, size_t segment_count,
                           struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                           struct tensor k, struct tensor v);
void op_delta_rule_backward(struct device *device, struct delta_shape shape, struct tensor grad_qkv,
                            struct tensor grad_decay, struct tensor grad_beta, struct tensor grad_state,
                            struct tensor grad_base, struct tensor grad_o, struct tensor state, struct tensor base,
                            struct tensor qkv, struct tensor decay, struct tensor beta);
