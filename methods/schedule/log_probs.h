// Log-probs of a batch's targets by a forward alone: what a reference says, and a policy of what it samples.
#pragma once
#include "kernels/layers/head.h"

struct log_prob_options {
    size_t chunk, head_chunk; // tokens of a cell, and of a block of logits; 0: all at once
    bool without_adapter;     // LoRA's products are left out
};

// log_prob: [T B, 1], of the statistics' dtype, as batch.reference is. A layer at a time over the whole context, in
// place: takes d e + 2 G D e bytes per token and a cell's own, which is less than any method's step. Ranks share
// it as a pipeline; the highest has the log-probs.
void log_prob_pass(struct model *model, const struct batch *batch, struct tensor log_prob,
                   struct log_prob_options options);
