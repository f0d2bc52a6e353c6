// Cell (l, c): layer l for the tokens of chunk c; the primitives that every method is an order of.
// Forward needs the cell's input and the keys and values of chunks 0..c of the layer. Backward needs what the cell
// kept, the gradient of its output, and the finished gradient of its keys and values. Rows are token-major: row i *
// B + b. Of the batch it is asked where documents begin; B is what the rows of x or grad are per token of the
// chunk. A chunk is of the batch's own tokens. Where ranks share those of the sequences (batch_share), keys and
// values that a cell reads are those that kv_ranks.h gives, by position, and so are the gradients that it adds to;
// its own keys' are not complete then, and its backward is that of all else.
#pragma once
#include "kernels/attention/activations.h"
#include "kernels/attention/kv.h"
#include "kernels/objectives/batch.h"

// Keys and values of the chunk's input x: [n, d] into its rows of kv. cell: of the cell_forward that comes next,
// which keeps as `how` says, or NULL: its queries are projected in the same pass over x, unless the device is
// `unfused`; and with qk_norm, if it keeps anything, k_projected and rstd_k are kept.
void kv_project(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct tensor x,
                struct kv kv, struct activations *cell, enum keep how);
// The same, where x comes in blocks of kv_block_rows rows of its `rows`, the last with fewer: a block's rows of the
// chunk's kv, from `row` on; and after the last block kv_rotate, which makes keys of them.
size_t kv_block_rows(const struct model *model, size_t rows);
void kv_project_block(struct model *model, size_t layer, struct span chunk, size_t row, struct tensor x,
                      struct kv kv);
void kv_rotate(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct kv kv);
// What a cell's backward leaves out where ranks share the tokens: of the chunk's rows of grad_kv, of the batch's
// own tokens, complete and spent, to the weights' gradients and added to grad, that of x. What it reads besides is
// made of x again.
void kv_project_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                         struct tensor x, struct kv grad_kv, struct tensor grad);
// y = cell(x), over the keys up to the chunk's end in kv, which must be there. y no tensor: what only y needs is
// not computed (a rebuild for the backward). KEEP_NOTHING: y may be x, and what kv_project made for the cell is
// freed. a->x becomes x. What attention gives may be kept by itself, and is not made again where it is there (enum
// attention_output).
void cell_forward(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct tensor x,
                  struct kv kv, struct tensor y, struct activations *a, enum keep how);
// grad: the gradient of the cell's output, becomes that of its input, or is spent (model_descends). Gradients of
// keys and values are added to the segments, one alone as far as the chunk's keys; the last segment must hold the
// cell's own keys, whose gradient is complete, and spent, on return. Weight gradients are added. The activations
// are freed as they are spent.
void cell_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                   struct activations *a, struct kv kv, const struct key_segment *segments, size_t segment_count,
                   struct tensor grad);
// Its two halves, in this order. The first frees gate and up, the largest that a cell keeps: a walk of whole rows
// takes the gradients of keys and values, which the second half alone needs, after it.
void cell_backward_mlp(struct model *model, size_t layer, struct span chunk, struct activations *a,
                       struct tensor grad);
void cell_backward_attention(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                             struct activations *a, struct kv kv, const struct key_segment *segments,
                             size_t segment_count, struct tensor grad);
// A rebuilt cell and its backward in parts, for a walk that attends by whole rows and does all else by chunks.
// Attention of all of the batch's own tokens, from x: q, o and logsumexp, and what its backward needs; frees none.
void cell_attend_forward(struct model *model, const struct batch *batch, size_t layer, struct tensor x,
                         struct kv kv, struct activations *a, enum keep how);
// What stands after it, of a chunk: a has its rows of o, written.
void cell_output_forward(struct model *model, size_t layer, struct span chunk, struct tensor x,
                         struct activations *a, enum keep how);
// grad: that of the cell's output, becomes that of what attention's backward adds to; grad_o: the chunk's rows of
// the gradient of o. Frees what the forward kept.
void cell_output_backward(struct model *model, size_t layer, struct span chunk, struct activations *a,
                          struct tensor grad_o, struct tensor grad);
// Of all chunks, when they are done: grad_q: that of o, becomes that of q; grad becomes that of x, or is spent.
void cell_attend_backward(struct model *model, const struct batch *batch, size_t layer, struct activations *a,
                          struct kv kv, struct key_segment keys, struct tensor grad_q, struct tensor grad);
