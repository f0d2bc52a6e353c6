// Attention blocks: kernels that attention in blocks needs besides cuDNN.
#pragma once
#include "kernels/cuda/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// Operands have token t of sequence b in row t * stride + b, counted from the first token's first sequence; tensors
// of cuDNN's blocks in row t * batch + b. The shape provides queries, batch and heads.

// Folding: with group = heads / kv_heads, row (t * group + j) * batch + b, columns g * head_dim .. of `to` are row
// t * stride + b, columns (g * group + j) * head_dim .. of `from`.
// to[i] = fold(from[i]) for i < 3.  bf16, from: rows of heads * head_dim,
// to: [queries * group * batch, kv_heads * head_dim]; no alias
void cuda_fold(struct device *device, const struct tensor to[3], const struct tensor from[3],
               struct attention_shape shape, size_t stride);
// to = fold^-1(sum) + x, or += if accumulate.  to and x: bf16, as `from` above, sum: f32, as `to`; either of sum
// and x may be none; no alias
void cuda_unfold(struct device *device, struct tensor to, bool accumulate, struct tensor sum, struct tensor x,
                 struct attention_shape shape, size_t stride);
// to[(b * kv_heads + g) * queries * group + t * group + j] = from[t * stride + b, g * group + j] for queries t of
// [first, end); for others a number so large that their gradients are 0. f32, from: rows of heads; no alias
void cuda_fold_logsumexp(struct device *device, struct tensor to, struct tensor from, struct attention_shape shape,
                         size_t stride, size_t first, size_t end);
// to[i, t * stride + b, g] += sum over heads j of group g of from[i, t * batch + b, g * group + j] for i < 2, in
// f32, rounded by rounding[i] if to is bf16.  from: bf16 [keys * batch, heads * head_dim], to: bf16 or f32, rows of
// kv_heads * head_dim.  The shape provides keys, batch and heads.
void cuda_add_keys(struct device *device, const struct tensor to[2], const struct tensor from[2],
                   const struct bf16_rounding rounding[2], struct attention_shape shape, size_t stride);
// Merges o and logsumexp (unless first) with the other's parts (attention_merge): part p of sequence b is its row
// (t * parts + p) * batch + b. other_o: bf16 [queries * parts * batch, heads * head_dim], o: bf16 rows with as many
// columns, logsumexps: f32 rows of heads; no alias
void cuda_merge_rows(struct device *device, struct tensor o, struct tensor logsumexp, struct tensor other_o,
                     struct tensor other_logsumexp, struct attention_shape shape, size_t stride, size_t parts,
                     bool first);
// to[(t * parts + p) * batch + b] = from[t * batch + b] for p < parts.  bf16 rows of heads * head_dim; no alias
void cuda_repeat_rows(struct device *device, struct tensor to, struct tensor from, struct attention_shape shape,
                      size_t parts);

#ifdef __cplusplus
}
#endif
