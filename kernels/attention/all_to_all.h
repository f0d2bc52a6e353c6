// All to all: attention where ranks share the tokens, and each attends for some of the heads over the tokens of all
// (Jacobs et al. 2023, arXiv 2309.14509). Queries go to the ranks of their heads, and what those make of them comes
// back; so do keys and values (kv_ranks.h). A head of keys that the queries of several ranks read is with each.
#pragma once
#include "kernels/model/carry.h"
#include "kernels/objectives/batch.h"

// Whether ranks can share the heads evenly: each rank has as many query heads, and each has as many key heads, or
// each key head as many ranks.
bool heads_divide(size_t heads, size_t kv_heads, size_t ranks);
// This rank's number of `heads` heads in all.
size_t heads_here(const struct model *model, size_t heads);

// From the rows of the own tokens with all `heads` heads to the rows of all tokens, by position, with this rank's
// heads. own: [n B, heads w]; returned: [T B, max(heads / P, 1) w].
struct tensor heads_spread(struct model *model, const struct batch *batch, struct tensor own, size_t heads);
// The inverse: collects own from all ranks; a head that several ranks have becomes their sum, the first rank's
// part first.
void heads_collect(struct model *model, const struct batch *batch, struct tensor own, size_t heads,
                   struct tensor share);

// Computes o and logsumexp of q, the rows of all own tokens, in kept. kv: of all tokens and this rank's heads.
void all_to_all_attend(struct model *model, const struct batch *batch, size_t layer, const struct kept *kept,
                       struct tensor q, struct carry kv);
// grad_q: the gradient of o, becomes that of q. Adds the gradients through this rank's queries to grad_kv, shaped
// as kv.
void all_to_all_attend_backward(struct model *model, const struct batch *batch, size_t layer,
                                const struct kept *kept, struct tensor q, struct carry kv, struct carry grad_kv,
                                struct tensor grad_q);
