// Forward pass: all rows of a batch from the bottom up, which ranks share as a pipeline; with it the loss without
// its gradient, by which held-out tokens are evaluated.
#pragma once
#include "kernels/model/model.h"
#include "kernels/objectives/batch.h"

// x: [T B, d], becomes the output of this rank's highest layer. chunk: tokens of a cell; 0: all.
void forward_rows(struct model *model, const struct batch *batch, size_t chunk, struct tensor x);
// Adds to loss, as objective_sums_new has it, of the highest rank, the batch's share of the objective, as its
// normaliser has it. chunk, head_chunk: tokens of a cell and of a block of logits; 0: all. Memory: x, one layer's
// keys and values, one cell. Failures are in the device's status.
void forward_pass(struct model *model, const struct batch *batch, size_t chunk, size_t head_chunk,
                  struct tensor loss);
// The same, by itself: waits for the device. 0 on ranks that are not the highest.
struct objective_sums forward_loss(struct model *model, const struct batch *batch, size_t chunk, size_t head_chunk);
