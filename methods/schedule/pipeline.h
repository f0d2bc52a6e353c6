// Pipeline: exchanges of a rank with the ranks that hold the layers below and above, chunk by chunk. Without a
// neighbour, and so on a single rank, they do nothing.
#pragma once
#include "kernels/model/model.h"

// x, y, grad: [C B, d] of a chunk: input of the rank's lowest layer, output of its highest, that output's gradient,
// and that input's. Asynchronous: a tensor belongs to the transport until the wait. Both sides use the same order
// of chunks.
struct delivery pipeline_start_input(struct model *model, struct tensor x);
struct delivery pipeline_start_output(struct model *model, struct tensor y);
struct delivery pipeline_start_gradient(struct model *model, struct tensor grad);
struct delivery pipeline_start_input_gradient(struct model *model, struct tensor grad);
void pipeline_wait(struct model *model, struct delivery *delivery);
// The same, waiting at once.
void pipeline_take_input(struct model *model, struct tensor x);
void pipeline_pass_output(struct model *model, struct tensor y);
void pipeline_take_gradient(struct model *model, struct tensor grad);
void pipeline_pass_gradient(struct model *model, struct tensor grad);
