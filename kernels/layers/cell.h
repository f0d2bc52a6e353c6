// Cell (l, c): layer l for the tokens of chunk c; the primitives that every method is an order of.
// Forward reads the cell's input and the layer's carry to its left and of its own: of attention, keys and values of
// chunks 0..c. Backward reads what the cell kept, the gradient of its output, and the finished gradient of its own
// carry. Rows are token-major: row i * B + b; B is the rows of x or grad per token of the chunk. A chunk is of the
// batch's own tokens. Where ranks share those of the sequences (batch_share), a cell reads keys and values as
// kv_ranks.h gives them, by position, and adds to such gradients; its own keys' gradients are not complete then,
// and its backward leaves them to kv_project_backward.
#pragma once
#include "kernels/model/carry.h"
#include "kernels/objectives/batch.h"

// The carry of the chunk's input x: [n, d], into its rows of kv. cell: of the cell_forward that comes next, which
// keeps as `how` says, or NULL: what it projects of x is projected in the same pass, unless the device is
// `unfused`; what only this pass can keep, is kept.
void kv_project(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct tensor x,
                struct carry kv, struct activations *cell, enum keep how);
// The same for a whole layer whose x comes in blocks of kv_block_rows rows, the last with fewer, each from `row`
// on; kv_finish follows the last block. rows, chunk_rows: of the layer, and of a chunk.
size_t kv_block_rows(const struct model *model, size_t layer, size_t rows, size_t chunk_rows);
void kv_project_block(struct model *model, const struct batch *batch, size_t layer, size_t row, struct tensor x,
                      struct carry kv);
void kv_finish(struct model *model, const struct batch *batch, size_t layer, struct carry kv);
// What a cell's backward leaves out where ranks share the tokens: from the chunk's rows of grad_kv, of the batch's
// own tokens, complete and spent, to the weights' gradients and to grad, that of x. Makes what it reads from x
// again.
void kv_project_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                         struct tensor x, struct carry grad_kv, struct tensor grad);
// y = cell(x). y no tensor: what only y needs is not computed (a rebuild for the backward). KEEP_NOTHING: y may be
// x, and what kv_project made for the cell is freed. a->x becomes x. The mixer's outputs may be kept by themselves,
// and are not made again where they are written (enum mixer_output).
void cell_forward(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct tensor x,
                  struct carry kv, struct tensor y, struct activations *a, enum keep how);
// grad: the gradient of the cell's output, becomes that of its input, or is spent (model_descends). Gradients of
// the carry are added to the segments, one alone as far as the chunk's end; the last segment must hold the chunk's
// own, whose gradient is complete, and spent, on return. Weight gradients are added. The activations are freed as
// they are spent.
void cell_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                   struct activations *a, struct carry kv, const struct carry_segment *segments,
                   size_t segment_count, struct tensor grad);
// Its two halves, in this order. The first frees what the MLP kept, the largest part of a cell: a schedule of whole
// layers allocates the carry's gradients, which the second half alone needs, after it.
void cell_backward_mlp(struct model *model, size_t layer, struct span chunk, struct activations *a,
                       struct tensor grad);
void cell_backward_mixer(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                         struct activations *a, struct carry kv, const struct carry_segment *segments,
                         size_t segment_count, struct tensor grad);
// A rebuilt cell and its backward in parts, for a schedule whose mixers run on whole layers and all else on chunks.
// The mixer of all of the batch's own tokens, from x: its outputs, and what its backward needs; frees none.
void cell_mix_forward(struct model *model, const struct batch *batch, size_t layer, struct tensor x,
                      struct carry kv, struct activations *a, enum keep how);
// What comes after it, for a chunk: a has its rows of the first output, written.
void cell_output_forward(struct model *model, size_t layer, struct span chunk, struct tensor x,
                         struct activations *a, enum keep how);
// grad: that of the cell's output, becomes that of what the mixer's backward adds to; grad_output: the chunk's rows
// of the gradient of the first output. Frees what the forward kept.
void cell_output_backward(struct model *model, size_t layer, struct span chunk, struct activations *a,
                          struct tensor grad_output, struct tensor grad);
// For all chunks, when they are done. grad_output is spent; grad becomes that of x, or is spent.
void cell_mix_backward(struct model *model, const struct batch *batch, size_t layer, struct activations *a,
                       struct carry kv, struct carry_segment segment, struct tensor grad_output,
                       struct tensor grad);
