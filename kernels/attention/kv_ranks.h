// KV over ranks: where ranks share the tokens of the sequences (batch_share), each projects keys and values of its
// own and reads those of all: here they are gathered, or those of some heads are (all_to_all.h), unless they go
// round (ring.h). Of these, and of a batch that is not shared, nothing is sent here, and all that is here is its
// own.
#pragma once
#include "kernels/model/carry.h"
#include "kernels/objectives/batch.h"

// Keys and values of all ranks' tokens by position, [T B], of all heads or of this rank's, beside this rank's own,
// [n B]; or own itself. Release with carry_gathered_free.
struct carry carry_gather(struct model *model, const struct batch *batch, struct carry own);
void carry_gathered_free(struct model *model, const struct batch *batch, struct carry *gathered);
// The same in place of its own, which it frees; release with carry_free.
struct carry carry_gather_take(struct model *model, const struct batch *batch, struct carry own);
// Gradients, 0, of a layer's carry as carry_gather gives it.
struct carry carry_gradients_new(struct model *model, const struct batch *batch, size_t layer);
// All of them, as a cell's backward takes them.
static inline struct carry_segment carry_segment_of(const struct batch *batch, struct carry gradients)
{
    return (struct carry_segment){.count = gradients.t[0].rows / batch->batch, .grad = gradients};
}
// They become those of this rank's own, [n B], summed over the ranks in their order. False: they were, and are
// spent; else they are left to kv_project_backward.
bool carry_gradients_sum(struct model *model, const struct batch *batch, struct carry *gradients);
