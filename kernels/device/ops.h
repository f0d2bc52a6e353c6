// Ops: the fronts of the device table. Each checks the shapes (a wrong one is a bug: abort), counts FLOPs, bytes
// and launches, and calls the device; GEMM and attention over tensors longer than the device takes go in parts,
// each of which is counted. After the device's status has failed each does nothing. Signatures, formulas
// and gradient contracts are those of device.h.
#pragma once
#include "kernels/device/device.h"

// A tensor of [rows, cols] on the device, not initialised. With a failed device or no room, its data is NULL.
struct tensor tensor_new(struct device *device, size_t rows, size_t cols, enum dtype dtype, enum category category);
// The same in a place.
struct tensor tensor_new_in(struct device *device, enum place place, size_t rows, size_t cols, enum dtype dtype,
                            enum category category);
// The same on the device, like one of the host that is copied in: the copy waits for its memory to be given
// (kernels/device/queue.h).
struct tensor tensor_copy_in(struct device *device, struct tensor host);
// Releases the tensor's memory and makes it no tensor. Views are never released.
void tensor_free(struct device *device, struct tensor *t);
// Host values in f64, converted to the tensor's dtype on the way, and back. values: rows * cols numbers. On a
// device without data neither does anything.
void tensor_write(struct device *device, struct tensor t, const double *values);
void tensor_read(struct device *device, struct tensor t, double *values);

// Tensors in either place.
void op_upload(struct device *device, struct tensor t, const void *src);
void op_download(struct device *device, void *dst, struct tensor t);
#define OPERATION(name) name##_op op_##name;
DEVICE_OPERATIONS_WITHOUT_WORKSPACE(OPERATION)
OPERATION(low_rank)
#undef OPERATION
// The workspace is taken from the arena and given back here.
void op_attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                           bool accumulate, const struct key_segment *segments, size_t segment_count,
                           struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                           struct tensor k, struct tensor v);
