// Row stream: a row walk whose inputs are kept on the host, and with gradient the running one, too. They come and
// go chunk by chunk, so that the device has no row of them but the one that goes up. The embedding is looked up
// again, so that of T B d e bytes each, L - 1 inputs go out and come in twice, for a row's keys and values and for
// its cells; and once more the input of a stage, but the highest, of several rows, for their forward. The gradient
// goes out and comes in L times, and once more for an embedding that trains. The host holds the inputs that
// row_walk keeps but the embedding's, and the gradient.
#pragma once
#include "methods/schedule/row.h"

// The walk's backward gets streams: of the input one that comes from the host, or is looked up again at row 0; of
// the gradient one on the device, or from the host and back. walk->kept is PLACE_HOST, and attention is rebuilt.
void row_stream_walk(struct step *step, const struct row_walk *walk, bool gradient);
// Bytes per token that it keeps on the device beside a row's keys and values, and their gradients; at most.
double row_stream_kept(const struct model *model, bool gradient);
