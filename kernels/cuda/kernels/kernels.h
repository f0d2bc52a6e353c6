// Kernels: the CUDA device's operations, with the types, formulas and gradient contracts of
// kernels/device/device.h. They run asynchronously in the device's stream; a failed launch aborts, unless memory is
// missing.
// Activations and weights are f64, f32 or bf16 (one dtype per call); the accumulator dtype is f64 for f64,
// otherwise f32. rstd and logsumexp have it, and gradients of weights, keys and values, and moments, may have it
// too, all of one call alike. Every sum in the device's own kernels has one order, determined by the shape and, in
// attention, the card.
#pragma once
#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" // {0} is complete in C
extern "C" {
#endif
#include "kernels/device/device.h"

// The part of device->workspace that partial sums of one operation may use.
#define CUDA_SCRATCH_BYTES ((size_t)1 << 20)

// Functions of a device that launches need; tests/simt replaces both. Its stream (cudaStream_t):
struct CUstream_st *cuda_stream(const struct device *device);
// The device's workspace for work in that stream. Operations use it one after another without waits, so all of them
// must be in one stream.
static inline void *cuda_workspace(const struct device *device, const struct CUstream_st *stream)
{
    CHECK(stream == cuda_stream(device));
    return device->workspace.data;
}
// Shared memory available to a block on its card.
size_t cuda_shared_bytes(const struct device *device);

// Handles failed allocations. After the first attempt (0), waits for earlier work, returns the pool's unused memory
// to the driver, and asks to retry. After the second returns false with a status (oom) on the device.
bool cuda_make_room(struct device *device, int attempt);
// A kernel for cudaFuncGetAttributes, to test whether this library has code for a card.
const void *cuda_probe(void);

#define OPERATION(name) name##_op cuda_##name;
DEVICE_OPERATIONS(OPERATION)
#undef OPERATION

// dst[i] += src[i] for i < count, 1 or 2, in one launch. Tensors have equal element counts, in f64, f32 or bf16,
// with one dtype for all dst and one for all src; added in f32 (f64 if dst is). The arrays are read before the
// launcher returns.
void cuda_accumulate_each(struct device *device, const struct tensor *dst, const struct tensor *src, size_t count);
// dst[i] += src[i] for two bf16 tensors, in one launch, added in f32 and rounded stochastically by rounding[i].
// Rows are whole groups of random bits (KEY_ROUNDING_GROUP).
void cuda_accumulate_rounded(struct device *device, const struct tensor dst[2], const struct tensor src[2],
                             const struct bf16_rounding rounding[2]);

// Attention by own kernels, which accumulate in place: the backward needs no workspace, and keys outside the
// segments cost only their part of grad_q. The card's shared memory determines the tile size; if heads are too long
// for the smallest tile, sets the device's status and launches nothing.
attention_forward_op attention_own_forward;
attention_backward_op attention_own_backward;
// The same for shape.batch sequences of a batch: row t * stride + b is token t of sequence b; in o and logsumexp
// row t * o_stride + b. No documents.
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
