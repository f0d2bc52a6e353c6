// Block ends: how every block begins and ends. It reads the norm of its input, or the input where there is no norm
// before it, and adds a projection, or the norm of that.
#pragma once
#include "kernels/layers/blocks.h"
#include "kernels/layers/cell_memory.h"
#include "kernels/layers/norm.h"
#include "kernels/layers/projection.h"

// Rows [row, row + rows) of what the block reads: in h, [n, d], if that is a tensor, else in scratch, [rows, d].
// rstd: [n, 1], or no tensor.
struct tensor block_input(struct model *model, const struct block *block, struct tensor h, struct tensor rstd,
                          struct tensor scratch, struct tensor x, size_t row, size_t rows);
// The same for the backward: what was kept, or made again.
struct tensor block_input_again(struct model *model, const struct block *block, const struct kept *kept,
                                struct tensor scratch, struct tensor x, size_t row, size_t rows);
// Tensors that block_input keeps of n rows, as `how` says; none without a norm.
void block_keep_input(struct model *model, const struct block *block, struct kept *kept, size_t n, enum keep how);
// Whether the gradient of what the block reads is wanted. descends: so is that of x.
bool block_input_needed(const struct block *block, bool descends);
// From rows of that gradient, in h, which are spent: adds that of the norm's gain, and to grad, [rows, d], that of
// x. Without a norm, nothing: grad has it. x: rows from the block's first on.
void block_input_backward(struct model *model, const struct block *block, const struct kept *kept, bool descends,
                          struct tensor grad, struct tensor h, struct tensor x, size_t row);
// Tensors that block_output keeps of n rows; none without a norm of the output.
void block_keep_output(struct model *model, const struct block *block, struct kept *kept, size_t n);
// y = onto + the block's last projection of `in`, or its norm; rows [row, row + in.rows) of the block's. y may be
// onto, or no tensor. normed: scratch [rows, d], read with a norm of the output only.
void block_output(struct model *model, const struct block *block, const struct kept *kept, size_t row,
                  struct tensor normed, struct tensor y, struct tensor onto, struct tensor in);
// The gradient of what the last projection makes, from rows of that of the block's output: these, or in scratch.
struct tensor block_output_gradient(struct model *model, const struct block *block, const struct kept *kept,
                                    size_t row, struct tensor scratch, struct tensor grad);
