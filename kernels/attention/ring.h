// Ring: attention where ranks share the tokens and none has all keys and values: each rank's go round, and all
// attend at each stop to what is there (Liu, Zaharia & Abbeel 2023, arXiv 2310.01889). With the pieces of pieces.h
// every stop is as much work for every rank. While a block is attended to the next is on its way.
#pragma once
#include "kernels/model/carry.h"
#include "kernels/objectives/batch.h"

// A rank's work at a stop, with the block of the rank of these pieces; backward, it adds to the block's gradients.
typedef void ring_stop(void *of, const struct pieces *pieces, struct carry block);
typedef void ring_stop_backward(void *of, const struct pieces *pieces, struct carry block, struct carry grad_block);
// Passes the ranks' carries, and behind them their gradients, which are added to those of the rank's own, grad_own.
void ring_pass(struct model *model, const struct batch *batch, struct carry own, ring_stop *stop_at, void *of);
void ring_pass_backward(struct model *model, const struct batch *batch, struct carry own, struct carry grad_own,
                        ring_stop_backward *stop_at, void *of);

// The batch's own tokens, all of them: o and logsumexp of q, in kept over the keys of all ranks; kv: the rank's
// own.
void ring_attend(struct model *model, const struct batch *batch, size_t layer, const struct kept *kept,
                 struct tensor q, struct carry kv);
// grad_q: that of o, becomes that of q. grad_kv, of the rank's own, += what all ranks give.
void ring_attend_backward(struct model *model, const struct batch *batch, size_t layer, const struct kept *kept,
                          struct tensor q, struct carry kv, struct carry grad_kv, struct tensor grad_q);
