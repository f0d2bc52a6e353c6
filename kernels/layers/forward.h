// Forward: a row from the bottom up, of which nothing but its output is kept.
#pragma once
#include "kernels/model/model.h"
#include "kernels/objectives/batch.h"

// x: [T B, d], the input of a layer, becomes its output, chunk by chunk of so many tokens (0: all at once): only
// keys and values are read of the chunks before. Memory besides: the layer's keys and values, one cell.
void layer_forward(struct model *model, const struct batch *batch, size_t layer, size_t chunk, struct tensor x);
