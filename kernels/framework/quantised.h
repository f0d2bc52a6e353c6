// Quantised: projections in NF4 as bitsandbytes stores and multiplies them, and PEFT's LoRA beside them.
#pragma once
#include "kernels/framework/framework_run.h"

// Tells whether parameter i is a projection that the run stores in NF4.
bool quantised_is(const struct framework_run *run, size_t i);
// Its values, in pairs a byte, and the scales of their blocks.
void quantised_open(struct framework_run *run, size_t i);
// x W^T + bias by MatMul4Bit, which multiplies by a copy of the weight in bf16, in forward and backward.
struct value quantised_linear(struct framework_run *run, struct value x, struct value weight, struct value bias);
