// Attend: attention of a chunk of the batch's own tokens. If ranks share the tokens, a chunk can have two runs of
// positions, which attend separately; the other ranks' keys and values are gathered, or pass in a ring (ring.h).
#pragma once
#include "kernels/model/carry.h"
#include "kernels/objectives/batch.h"

// Whether ranks that share the tokens communicate during attention.
bool attend_sends(enum exchange exchange);
// Computes o and logsumexp of q over kv (kv_ranks.h), in kept. A rank without tokens must call it, too.
void attend(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
            const struct kept *kept, struct tensor q, struct carry kv);
// grad_q: the gradient of o, becomes that of q. Gradients of keys and values are added to the segments.
void attend_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                     const struct kept *kept, struct tensor q, struct carry kv,
                     const struct carry_segment *segments, size_t segment_count, struct tensor grad_q);
