// Forward: the loss of a batch without its gradient: whole rows from the bottom up, of each nothing but its output
// kept. What held-out tokens are evaluated by.
#pragma once
#include "kernels/transformer/batch.h"
#include "kernels/transformer/model.h"

// The batch's share of the objective, as its normaliser has it. chunk, head_chunk: tokens of a cell and of a block
// of logits; 0: all. Memory: x, one layer's keys and values, one cell. Waits for the device; failures are in its
// status.
double forward_loss(struct model *model, const struct batch *batch, size_t chunk, size_t head_chunk);
