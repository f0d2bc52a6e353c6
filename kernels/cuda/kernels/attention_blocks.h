// Attention blocks: what attention in blocks needs besides cuDNN.
#pragma once
#include "kernels/cuda/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// In all of these row t * stride + b is token t of sequence b in the operands, from the first token's first
// sequence on, and row t * batch + b in what cuDNN's blocks read and write. Of the shape: queries, batch, heads.

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
// [first, end); of others so large a number that they have no part in any gradient.
// f32, from: rows of heads; no alias
void cuda_fold_logsumexp(struct device *device, struct tensor to, struct tensor from, struct attention_shape shape,
                         size_t stride, size_t first, size_t end);
// to[i, t * stride + b, g] += sum over heads j of group g of from[i, t * batch + b, g * group + j] for i < 2, in
// f32, rounded as rounding[i] says, if to is bf16.  from: bf16 [keys * batch, heads * head_dim], to: bf16 or f32,
// rows of kv_heads * head_dim.  The shape says keys, batch and heads.
void cuda_add_keys(struct device *device, const struct tensor to[2], const struct tensor from[2],
                   const struct bf16_rounding rounding[2], struct attention_shape shape, size_t stride);
// o and logsumexp = those of attention over the keys of all (attention_merge): of themselves, unless first, and of
// the other's parts: part p of sequence b is its row (t * parts + p) * batch + b.
// other_o: bf16 [queries * parts * batch, heads * head_dim], o: bf16 rows of as many columns, logsumexps: f32 rows
// of heads; no alias
void cuda_merge_rows(struct device *device, struct tensor o, struct tensor logsumexp, struct tensor other_o,
                     struct tensor other_logsumexp, struct attention_shape shape, size_t stride, size_t parts,
                     bool first);
// to[(t * parts + p) * batch + b] = from[t * batch + b] for p < parts.  bf16 rows of heads * head_dim; no alias
void cuda_repeat_rows(struct device *device, struct tensor to, struct tensor from, struct attention_shape shape,
                      size_t parts);

#ifdef __cplusplus
}
#endif
