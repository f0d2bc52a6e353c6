// Cell (l, c): layer l for the tokens of chunk c. Every method is an order of these primitives. Forward reads the
// cell's input and the layer's carry up to its own: for attention, keys and values of chunks 0..c. Backward reads
// the cell's activations, the gradient of its output, and the complete gradient of its own carry. Rows are
// token-major: row i * B + b; B is the rows of x or grad per token of the chunk. A chunk is of the batch's own
// tokens. If ranks share the tokens of the sequences (batch_share), a cell reads keys and values of all ranks
// (kv_ranks.h), by position, and adds to their gradients; its own keys' gradients are then incomplete, and its
// backward leaves them to kv_project_backward.
#pragma once
#include "kernels/model/carry.h"
#include "kernels/objectives/batch.h"

// Whether the layer's cells are of all of the rank's tokens, because ranks communicate while they run.
bool cell_is_whole(const struct model *model, size_t layer);
// Writes the carry of the chunk's input x: [n, d] to its rows of kv. cell: the activations of the following
// cell_forward with `how`, or NULL. Its projections of x then run in the same pass, unless the device is
// `unfused`, and tensors that only this pass can keep are kept.
void kv_project(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct tensor x,
                struct carry kv, struct activations *cell, enum keep how);
// The same for a whole layer whose x comes in blocks of kv_block_rows rows, the last with fewer, each from `row`
// on; kv_finish follows the last block. rows, chunk_rows: of the layer, and of a chunk.
size_t kv_block_rows(const struct model *model, size_t layer, size_t rows, size_t chunk_rows);
void kv_project_block(struct model *model, const struct batch *batch, size_t layer, size_t row, struct tensor x,
                      struct carry kv);
void kv_finish(struct model *model, const struct batch *batch, size_t layer, struct carry kv);
// The rest of a cell's backward if ranks share the tokens: from the chunk's rows of grad_kv, of the batch's own
// tokens, complete, and spent on return, to the weights' gradients and to grad, the gradient of x. Recomputes its
// other inputs from x.
void kv_project_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                         struct tensor x, struct carry grad_kv, struct tensor grad);
// y = cell(x). y no tensor: a rebuild for the backward, without the products that only y needs. KEEP_NOTHING: y
// may be x, and kv_project's results for the cell are freed. a->x becomes x. The mixer's outputs may be kept
// separately (enum mixer_output). Of experts, without y and KEEP_NOTHING: makes the choices alone.
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
void cell_backward_mlp(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                       struct activations *a, struct tensor grad);
void cell_backward_mixer(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                         struct activations *a, struct carry kv, const struct carry_segment *segments,
                         size_t segment_count, struct tensor grad);
// A rebuilt cell and its backward in parts, for a schedule whose mixers run on whole layers and all else on chunks.
// The mixer of all of the batch's own tokens, from x: its outputs, and what its backward needs; frees none.
void cell_mix_forward(struct model *model, const struct batch *batch, size_t layer, struct tensor x,
                      struct carry kv, struct activations *a, enum keep how);
// A chunk's part of these activations: the rows that the block's last projection is made of, borrowed.
struct activations cell_output_part(const struct model *model, size_t layer, const struct activations *whole,
                                    struct span chunk, size_t B);
// The rest of the forward, for a chunk, of which a is that part.
void cell_output_forward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                         struct tensor x, struct activations *a, enum keep how);
// grad: that of the cell's output, becomes that of what the mixer's backward adds to; grad_output: the chunk's rows
// of the gradient of the first output. Frees what the forward kept.
void cell_output_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                          struct activations *a, struct tensor grad_output, struct tensor grad);
// For all chunks, when they are done. grad_output is spent; grad becomes that of x, or is spent.
void cell_mix_backward(struct model *model, const struct batch *batch, size_t layer, struct activations *a,
                       struct carry kv, struct carry_segment segment, struct tensor grad_output,
                       struct tensor grad);
