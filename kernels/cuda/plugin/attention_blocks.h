// Attention blocks: what the blocks of attention's backward need besides cuDNN.
#pragma once
#include "kernels/cuda/plugin/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// Folding: with group = heads / kv_heads, row (t * group + j) * batch + b, columns g * head_dim .. of `to` are row
// t * batch + b, columns (g * group + j) * head_dim .. of `from`.  Of the shape: queries, batch, heads.
// to[i] = fold(from[i]) for i < 3.  bf16, from: [queries * batch, heads * head_dim],
// to: [queries * group * batch, kv_heads * head_dim]; no alias
void cuda_fold(struct device *device, const struct tensor to[3], const struct tensor from[3],
               struct attention_shape shape);
// to = fold^-1(sum) + x, or += if accumulate.  to and x: bf16, as `from` above, x may be none, sum: f32, as `to`;
// no alias
void cuda_unfold(struct device *device, struct tensor to, bool accumulate, struct tensor sum, struct tensor x,
                 struct attention_shape shape);
// to[(b * kv_heads + g) * queries * group + t * group + j] = from[t * batch + b, g * group + j].
// f32, from: [queries * batch, heads]; no alias
void cuda_fold_logsumexp(struct device *device, struct tensor to, struct tensor from, struct attention_shape shape);

#ifdef __cplusplus
}
#endif
