// Attend: attention of a chunk of the batch's own tokens. Where ranks share the tokens, those of a chunk can be two
// runs of positions, each of which attends for itself; and keys and values of the others are here, or come round
// (ring.h).
#pragma once
#include "kernels/model/carry.h"
#include "kernels/objectives/batch.h"

// Whether ranks send each other something while they attend.
bool attend_sends(const struct model *model, const struct batch *batch);
// o and logsumexp, in kept: of q over keys and values as kv_ranks.h gives them. A rank without tokens attends with
// the others, too.
void attend(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
            const struct kept *kept, struct tensor q, struct carry kv);
// grad_q: that of o, becomes that of q. Gradients of keys and values are added to the segments.
void attend_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                     const struct kept *kept, struct tensor q, struct carry kv,
                     const struct carry_segment *segments, size_t segment_count, struct tensor grad_q);
