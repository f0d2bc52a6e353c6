// Forward: the loss of a batch without its gradient: whole rows from the bottom up, of each nothing but its output
// kept. What held-out tokens are evaluated by.
#pragma once
#include "kernels/transformer/batch.h"
#include "kernels/transformer/model.h"

// x: [T B, d], the input of a layer, becomes its output, chunk by chunk of so many tokens (0: all at once): only
// keys and values are read of the chunks before. Memory besides: the layer's keys and values, one cell.
void row_forward(struct model *model, const struct batch *batch, size_t layer, size_t chunk, struct tensor x);
// Adds to loss, [1, 1] f64, the batch's share of the objective, as its normaliser has it. chunk, head_chunk: tokens
// of a cell and of a block of logits; 0: all. Memory: x, one layer's keys and values, one cell. Failures are in the
// device's status.
void forward_pass(struct model *model, const struct batch *batch, size_t chunk, size_t head_chunk,
                  struct tensor loss);
// The same, by itself: waits for the device.
double forward_loss(struct model *model, const struct batch *batch, size_t chunk, size_t head_chunk);
