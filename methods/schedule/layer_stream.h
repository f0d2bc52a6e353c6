// Layer stream: a layer schedule with inputs, and optionally the gradient, on the host. They are streamed chunk by
// chunk, so that the device holds only the current layer's output. The embedding is looked up again: of T B d e
// bytes each, L - 1 inputs go out once and come in twice, for a layer's keys and values and for its cells; the
// input of a segment of several layers, except the highest, once more for their forward. The gradient goes out and
// comes in L times, and once more for a trainable embedding. The host holds the inputs that layer_schedule keeps,
// except the embedding's, and the gradient.
#pragma once
#include "methods/schedule/layer_schedule.h"

// The schedule's backward gets streams: the input's from the host, or looked up again at layer 0; the gradient's on
// the device, or from and to the host. schedule->kept is PLACE_HOST, and attention is recomputed.
void layer_stream_run(struct step *step, const struct layer_schedule *schedule, bool gradient);
// Maximum bytes per token on the device besides a layer's keys and values, and their gradients.
double layer_stream_kept(const struct model *model, bool gradient);
