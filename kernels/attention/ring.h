// Ring: attention where ranks share the tokens and none has all keys and values: each rank's go round, and all
// attend at each stop to what is there (Liu, Zaharia & Abbeel 2023, arXiv 2310.01889). With the pieces of pieces.h
// every stop is as much work for every rank. While a block is attended to the next is on its way.
#pragma once
#include "kernels/model/carry.h"
#include "kernels/objectives/batch.h"

// The batch's own tokens, all of them: o and logsumexp of q, in kept over the keys of all ranks; kv: the rank's
// own.
void ring_attend(struct model *model, const struct batch *batch, size_t layer, const struct kept *kept,
                 struct tensor q, struct carry kv);
// grad_q: that of o, becomes that of q. grad_kv, of the rank's own, += what all ranks give.
void ring_attend_backward(struct model *model, const struct batch *batch, size_t layer, const struct kept *kept,
                          struct tensor q, struct carry kv, struct carry grad_kv, struct tensor grad_q);
