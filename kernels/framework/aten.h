// ATen: the operations of decoders, each by what it allocates, what it saves for its backward and what that
// allocates (PyTorch's derivatives.yaml). Values that an operation takes stay the caller's.
#pragma once
#include "kernels/framework/tape.h"

// The same value in this dtype; a reference if it has it.
struct value aten_to(struct tape *tape, struct value x, enum dtype dtype, enum category category);
// x^2; the mean of each row; x + a number; 1 / sqrt(x); x times a number.
struct value aten_pow(struct tape *tape, struct value x);
struct value aten_mean(struct tape *tape, struct value x);
struct value aten_add_scalar(struct tape *tape, struct value x);
struct value aten_rsqrt(struct tape *tape, struct value x);
struct value aten_mul_scalar(struct tape *tape, struct value x);
// a b: of one shape, or one of them a row, or a number for each row, which is broadcast.
struct value aten_mul(struct tape *tape, struct value a, struct value b);
// a + b of one shape, in the wider dtype.
struct value aten_add(struct tape *tape, struct value a, struct value b, enum category category);
// SiLU or GELU.
struct value aten_activation(struct tape *tape, struct value x);
// x W^T + bias; bias: no value: none.
struct value aten_linear(struct tape *tape, struct value x, struct value weight, struct value bias,
                         enum category category);
struct value aten_embedding(struct tape *tape, struct value weight, struct value ids, enum category category);
// A view as heads, [rows * heads, head_dim], with tokens behind heads: a gradient that operations on that order
// have made is copied back, but for one head.
struct value aten_heads(struct tape *tape, struct value x, size_t head_dim);
// x cos + rotate_half(x) sin, as transformers composes it.
struct value aten_rotate(struct tape *tape, struct value x, struct value cos, struct value sin);
// Heads `times` over, a copy or, of one head, a view; times 1: a reference.
struct value aten_repeat(struct tape *tape, struct value x, size_t times, bool copied);
// A copy in another order.
struct value aten_contiguous(struct tape *tape, struct value x);

enum aten_attention_kind { ATEN_FLASH, ATEN_EFFICIENT };
struct aten_attention {
    enum aten_attention_kind kind;
    size_t batch, tokens, heads, kv_heads, head_dim; // kv_heads: of k and v as they are passed
};
// Scaled dot-product attention: causal, or with a mask, which it saves. [rows, heads * head_dim].
struct value aten_attention(struct tape *tape, struct value q, struct value k, struct value v, struct value mask,
                            struct aten_attention how);
// x = cap tanh(x / cap), in three operations.
void aten_cap(struct tape *tape, struct value *x);
// Eager attention: a b^T or a b in batches, [a.rows, cols]; softmax of rows.
struct value aten_bmm(struct tape *tape, struct value a, struct value b, size_t cols);
struct value aten_softmax(struct tape *tape, struct value x);
// A view by heads, with tokens behind heads, as one batch of matrices: of more than one sequence a copy.
struct value aten_batched(struct tape *tape, struct value x, size_t batch);
// The view back, whose gradient is such a copy.
struct value aten_by_heads(struct tape *tape, struct value x, size_t batch);

// Mixtures of experts: the k greatest of each row, and their numbers; each row over its sum, in place.
struct value aten_topk(struct tape *tape, struct value x, size_t k, struct value *numbers);
struct value aten_normalise(struct tape *tape, struct value x);
// Rows x[numbers], `rows` of them; sums of each `count` rows.
struct value aten_index(struct tape *tape, struct value x, struct value numbers, size_t rows);
struct value aten_sum_rows(struct tape *tape, struct value x, size_t count);
// Views of x's first and second columns, whose gradients are joined.
void aten_halves(struct tape *tape, struct value x, struct value parts[2]);
// Rows times the weight of their expert, [rows, cols]; ends: of each expert's rows.
struct value aten_grouped_mm(struct tape *tape, struct value x, struct value weight, struct value ends,
                             size_t cols);

// -log softmax(logits)[targets], in f32, mean or sum: a scalar.
struct value aten_cross_entropy(struct tape *tape, struct value logits, struct value targets);
// Views of x of `rows` rows each, the last one of the rest, whose gradients are joined; returns their number.
// parts: at least as many.
size_t aten_split(struct tape *tape, struct value x, size_t rows, struct value *parts);
// The first rows of x, a view.
struct value aten_rows(struct tape *tape, struct value x, size_t rows);
