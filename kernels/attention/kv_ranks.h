// KV over ranks: where ranks share the tokens of the sequences (batch_share), each projects keys and values of its
// own and reads those of all: here they are gathered, or those of some heads are (all_to_all.h), unless they go
// round (ring.h). Of these, and of a batch that is not shared, nothing is sent here, and all that is here is its
// own.
#pragma once
#include "kernels/attention/kv.h"
#include "kernels/objectives/batch.h"

// Keys and values of all ranks' tokens by position, [T B], of all heads or of this rank's, beside this rank's own,
// [n B]; or own itself. Release with kv_gathered_free.
struct kv kv_gather(struct model *model, const struct batch *batch, struct kv own);
void kv_gathered_free(struct model *model, const struct batch *batch, struct kv *gathered);
// The same in place of its own, which it frees; release with kv_free.
struct kv kv_gather_take(struct model *model, const struct batch *batch, struct kv own);
// Gradients, 0, for what kv_gather gives.
struct kv kv_gradients_new(struct model *model, const struct batch *batch);
// All of them, as attention's backward takes them.
static inline struct key_segment kv_segment(const struct batch *batch, struct kv gradients)
{
    return (struct key_segment){
        .count = gradients.k.rows / batch->batch, .grad_k = gradients.k, .grad_v = gradients.v};
}
// They become those of this rank's own, [n B], summed over the ranks in their order. False: they were, and are
// spent; else they are left to kv_project_backward.
bool kv_gradients_sum(struct model *model, const struct batch *batch, struct kv *gradients);
