// All to all: attention where ranks share the tokens, and each attends for some of the heads over the tokens of all
// (Jacobs et al. 2023, arXiv 2309.14509). Queries go to the ranks of their heads, and what those make of them comes
// back; so do keys and values (kv_ranks.h). A head of keys that the queries of several ranks read is with each.
#pragma once
#include "kernels/model/carry.h"
#include "kernels/objectives/batch.h"

// Whether so many heads of queries, and of keys, can be shared out: as many to each rank, and those of keys as
// many, or to as many ranks each.
bool heads_divide(size_t heads, size_t kv_heads, size_t ranks);
// How many of so many heads this rank attends for, or reads.
size_t heads_here(const struct model *model, size_t heads);

// Of rows of the batch's own tokens and `heads` heads side by side those of all tokens, by position, and of this
// rank's heads alone. own: [n B, heads w]; returned: [T B, max(heads / P, 1) w].
struct tensor heads_spread(struct model *model, const struct batch *batch, struct tensor own, size_t heads);
// The way back: own becomes what all ranks have of it, in place of a head that several have their sum, the first
// rank's part first.
void heads_collect(struct model *model, const struct batch *batch, struct tensor own, size_t heads,
                   struct tensor share);

// The batch's own tokens, all of them: o and logsumexp of q, in kept. kv: of all tokens and this rank's heads.
void all_to_all_attend(struct model *model, const struct batch *batch, size_t layer, const struct kept *kept,
                       struct tensor q, struct carry kv);
// grad_q: that of o, becomes that of q. grad_kv, as kv, += what this rank's queries give.
void all_to_all_attend_backward(struct model *model, const struct batch *batch, size_t layer,
                                const struct kept *kept, struct tensor q, struct carry kv, struct carry grad_kv,
                                struct tensor grad_q);
