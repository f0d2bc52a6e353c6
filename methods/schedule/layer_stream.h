// Layer stream: a layer walk whose inputs are kept on the host, and with gradient the running one, too. They come
// and go chunk by chunk, so that the device has no layer of them but the one that goes up. The embedding is looked
// up again, so that of T B d e bytes each, L - 1 inputs go out and come in twice, for a layer's keys and values and
// for its cells; and once more the input of a segment, but the highest, of several layers, for their forward. The
// gradient goes out and comes in L times, and once more for an embedding that trains. The host holds the inputs
// that layer_schedule keeps but the embedding's, and the gradient.
#pragma once
#include "methods/schedule/layer_schedule.h"

// The walk's backward gets streams: of the input one that comes from the host, or is looked up again at layer 0; of
// the gradient one on the device, or from the host and back. walk->kept is PLACE_HOST, and attention is rebuilt.
void layer_stream_run(struct step *step, const struct layer_schedule *schedule, bool gradient);
// Bytes per token that it keeps on the device beside a layer's keys and values, and their gradients; at most.
double layer_stream_kept(const struct model *model, bool gradient);
