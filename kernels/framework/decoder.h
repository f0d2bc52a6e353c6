// Decoder: the forward passes of transformers' decoders (modeling_llama.py and its like), operation by operation,
// with the names that Python holds.
#pragma once
#include "kernels/framework/framework_run.h"

// The final norm's output of the run's tokens.
struct value decoder_forward(struct framework_run *run);
// A scalar: the loss by the framework's head. *outputs: logits that it hands on, or no value. Takes the hidden
// states.
struct value decoder_loss(struct framework_run *run, struct value *hidden, struct value *outputs);
