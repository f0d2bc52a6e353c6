// Kernels: the CUDA device's own kernels, one launcher per operation of kernels/base/device.h, whose formulas and
// gradient contracts hold here: outputs, inputs, sizes, stream last. Activations and weights are f64, f32 or bf16
// (one dtype per call), sums f64 in f64 and f32 otherwise; rstd and logsumexp have the sums' dtype, and gradients
// of weights, keys and values may have it too. Every sum has one order, fixed by the shape and, in attention, the
// card. A launcher returns at once and aborts if the launch is refused.
#pragma once
#include <cuda_runtime.h>
#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" // {0} is complete in C
extern "C" {
#endif
#include "kernels/base/device.h"

// Device memory for the partial sums of one operation at a time, in stream order: `scratch` below. The caller may
// share it with whatever else runs in the same stream (GEMM's workspace).
#define CUDA_SCRATCH_BYTES ((size_t)1 << 20)
// The longest head that attention's own kernels hold.
#define CUDA_ATTENTION_HEAD_DIM 256

// A kernel, for cudaFuncGetAttributes: whether this library has code for a card.
const void *cuda_probe(void);

// dst and src: f64, f32 or bf16 each.
void cuda_copy(struct tensor dst, struct tensor src, cudaStream_t stream);
// t[i] = mean + deviation * random_normal(random, i), rounded to `rounding`, then to t's dtype.
void cuda_random_normal(struct tensor t, struct random random, double mean, double deviation, enum dtype rounding,
                        cudaStream_t stream);
void cuda_scale(struct tensor t, double factor, cudaStream_t stream);
// y += bias
void cuda_bias_forward(struct tensor y, struct tensor bias, cudaStream_t stream);
void cuda_bias_backward(struct tensor grad_bias, struct tensor grad_y, void *scratch, cudaStream_t stream);

void cuda_rmsnorm_forward(struct tensor y, struct tensor rstd, struct tensor x, struct tensor gain, double epsilon,
                          cudaStream_t stream);
// grad_gain may be no tensor.
void cuda_rmsnorm_backward(struct tensor grad_x, bool accumulate, struct tensor grad_gain, struct tensor grad_y,
                           struct tensor x, struct tensor gain, struct tensor rstd, void *scratch,
                           cudaStream_t stream);

void cuda_rope(struct tensor x, struct tensor frequencies, size_t start, size_t batch, int direction,
               cudaStream_t stream);

// head_dim <= CUDA_ATTENTION_HEAD_DIM. reverse: tiles of keys and queries are added from the last to the first.
// shared_bytes: the shared memory that a block may take on this card, which gives the size of the tiles. False, and
// nothing is launched, if heads are too long for the smallest tile.
bool cuda_attention_forward(struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                            struct tensor v, struct attention_shape shape, bool reverse, size_t shared_bytes,
                            cudaStream_t stream);
// Needs no workspace. Keys outside the segments cost nothing but their part of grad_q. The segments' gradients
// share one dtype. The list is read before the launcher returns.
bool cuda_attention_backward(struct tensor grad_q, const struct key_segment *segments, size_t segment_count,
                             struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                             struct tensor k, struct tensor v, struct attention_shape shape, bool reverse,
                             size_t shared_bytes, cudaStream_t stream);

void cuda_swiglu_forward(struct tensor y, struct tensor gate, struct tensor up, cudaStream_t stream);
void cuda_swiglu_backward(struct tensor gate, struct tensor up, struct tensor grad_y, cudaStream_t stream);

void cuda_embedding_forward(struct tensor y, struct tensor table, struct tensor ids, cudaStream_t stream);
void cuda_embedding_backward(struct tensor grad_table, struct tensor grad_y, struct tensor ids,
                             cudaStream_t stream);

void cuda_cross_entropy(struct tensor logits, struct tensor loss, struct tensor targets, double loss_weight,
                        double grad_weight, void *scratch, cudaStream_t stream);

void cuda_log_prob(struct tensor log_prob, struct tensor logsumexp, struct tensor logits, struct tensor targets,
                   cudaStream_t stream);
// grad may be log_prob. weights may be no tensor.
void cuda_objective_rows(struct tensor grad, struct tensor loss, struct tensor log_prob, struct tensor weights,
                         struct tensor targets, enum row_objective objective, double loss_weight,
                         double grad_weight, cudaStream_t stream);
void cuda_log_prob_backward(struct tensor logits, struct tensor logsumexp, struct tensor targets,
                            struct tensor grad, cudaStream_t stream);

// g, m and v share one dtype.
void cuda_adamw(struct tensor w, struct tensor m, struct tensor v, struct tensor g, double rate, double beta1,
                double beta2, double epsilon, double decay, size_t t, cudaStream_t stream);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
