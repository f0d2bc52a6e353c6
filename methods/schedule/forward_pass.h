// Forward pass: all rows of a batch through all layers, over a pipeline of ranks; and the loss without its
// gradient, for held-out tokens.
#pragma once
#include "kernels/model/model.h"
#include "kernels/objectives/batch.h"

// x: [T B, d], becomes the output of this rank's highest layer. chunk: tokens of a cell; 0: all.
void forward_rows(struct model *model, const struct batch *batch, size_t chunk, struct tensor x);
// Adds the batch's share of the objective, by its normaliser, to loss (objective_sums_new) on the highest rank.
// chunk, head_chunk: tokens of a cell and of a block of logits; 0: all. Memory: x, one layer's keys and values, one
// cell. Failures are in the device's status.
void forward_pass(struct model *model, const struct batch *batch, size_t chunk, size_t head_chunk,
                  struct tensor loss);
// Returns the loss; waits for the device. 0 on ranks that are not the highest.
struct objective_sums forward_loss(struct model *model, const struct batch *batch, size_t chunk, size_t head_chunk);
