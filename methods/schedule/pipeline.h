// Pipeline: what a rank that has some of the layers gets from the ranks that have those below and above, a chunk
// at a time. At the bottom and at the top, and so on one rank alone, where there is nobody to ask, nothing is done.
#pragma once
#include "kernels/model/model.h"

// x, y, grad: [C B, d] of a chunk: the input of the rank's lowest layer and the output of its highest; the
// gradient of that output, and of that input. Each sets out, and is the transport's until it has been waited for;
// chunks in one order on both sides.
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
