// Forward: a whole layer, chunk by chunk, of which only the output is kept, and the mixer's outputs if asked for.
#pragma once
#include "kernels/layers/cell.h"

// Outputs of a layer's mixer for all tokens; attention's are o: [T B, H D] and logsumexp: [T B, H].
struct kept_outputs {
    bool kept;
    struct tensor t[MIXER_OUTPUTS];
};
// A chunk's cell whose outputs are to be written or read; the cell's own if none are kept.
struct activations layer_cell(struct kept_outputs outputs, struct span chunk, size_t B, enum mixer_output whose);
// y = the layer's output of x: [T B, d], in chunks of so many tokens (0: all at once); y may be x, for cells read
// only the carry of the chunks before. Writes the outputs if they are kept. Memory besides: the layer's carry, one
// cell.
void layer_forward(struct model *model, const struct batch *batch, size_t layer, size_t chunk, struct tensor x,
                   struct tensor y, struct kept_outputs outputs);
