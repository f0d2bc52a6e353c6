// Log-probs of a batch's targets by a forward pass, for references and sampling policies.
#pragma once
#include "kernels/layers/head.h"

struct log_prob_options {
    size_t chunk, head_chunk; // tokens of a cell, and of a block of logits; 0: all at once
    bool without_adapter;     // omits LoRA's products
};

// log_prob: [T B, 1], in the statistics' dtype, like batch.reference. Runs layer by layer over the whole context,
// in place: d e + 2 G D e bytes per token and one cell, less than any method's step. Ranks share it as a pipeline;
// the highest gets the log-probs.
void log_prob_pass(struct model *model, const struct batch *batch, struct tensor log_prob,
                   struct log_prob_options options);
