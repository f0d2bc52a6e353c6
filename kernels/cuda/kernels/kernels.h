// Kernels: the CUDA device's operations, by the types of kernels/device/device.h, whose formulas and gradient
// contracts hold here: in the device's stream, so each returns at once; a launch that is refused aborts, but where
// it is for want of memory.
// Activations and weights are f64, f32 or bf16 (one dtype per call), sums f64 in f64 and f32 otherwise; rstd and
// logsumexp have the sums' dtype, and gradients of weights, keys and values, and their moments, may have it too,
// those of one call alike. Every sum of the device's own kernels has one order, fixed by the shape and, in
// attention, the card.
#pragma once
#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" // {0} is complete in C
extern "C" {
#endif
#include "kernels/device/device.h"

// Of device->workspace, what partial sums of one operation at a time may take.
#define CUDA_SCRATCH_BYTES ((size_t)1 << 20)
// The longest head that attention's own kernels hold.
#define CUDA_ATTENTION_HEAD_DIM 256

// What a launch needs to know of a device; tests/simt has its own of both. Its stream (cudaStream_t):
struct CUstream_st *cuda_stream(const struct device *device);
// The device's workspace, for what is sent into that stream. Operations take it one after another without a wait
// between them, so all of them must be in one.
static inline void *cuda_workspace(const struct device *device, const struct CUstream_st *stream)
{
    CHECK(stream == cuda_stream(device));
    return device->workspace.data;
}
// The shared memory that a block may take on its card.
size_t cuda_shared_bytes(const struct device *device);

// The card had no memory for what the device was asked for. After the first attempt, 0, what the pool keeps goes
// back to the driver, when all before is done, and it is to be tried again. After the second false: the device has
// a status (oom).
bool cuda_make_room(struct device *device, int attempt);
// A kernel, for cudaFuncGetAttributes: whether this library has code for a card.
const void *cuda_probe(void);

#define OPERATION(name) name##_op cuda_##name;
DEVICE_OPERATIONS(OPERATION)
#undef OPERATION

// dst[i] += src[i] for i < count, 1 or 2, in one launch: tensors of as many elements, f64, f32 or bf16 each, all of
// dst alike and all of src; added in f32 (f64 if dst is). The arrays are read before the launcher returns.
void cuda_accumulate_each(struct device *device, const struct tensor *dst, const struct tensor *src, size_t count);
// dst[i] += src[i] of two tensors in bf16, in one launch, added in f32 and rounded stochastically by rounding[i].
// Rows are whole groups of random bits (KEY_ROUNDING_GROUP).
void cuda_accumulate_rounded(struct device *device, const struct tensor dst[2], const struct tensor src[2],
                             const struct bf16_rounding rounding[2]);

// Attention by own kernels, which accumulate in place: the backward needs no workspace, and keys outside the
// segments cost nothing but their part of grad_q. The card's shared memory gives the size of the tiles; where heads
// are too long for the smallest, nothing is launched and the device's status says so.
attention_forward_op attention_own_forward;
attention_backward_op attention_own_backward;
// The same of some sequences of a batch: shape.batch of them, of which row t * stride + b is token t of sequence b;
// of o and logsumexp row t * o_stride + b. sequence: the first one. No documents.
void attention_own_forward_rows(struct device *device, struct attention_shape shape, size_t stride, size_t o_stride,
                                struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                                struct tensor v);
void attention_own_backward_rows(struct device *device, struct attention_shape shape, size_t stride,
                                 size_t sequence, struct tensor grad_q, bool accumulate,
                                 const struct key_segment *segments, size_t segment_count, struct tensor grad_o,
                                 struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                                 struct tensor v);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
