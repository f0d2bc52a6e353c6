// KV over ranks: ranks that share the tokens of the sequences (batch_share) each project the carry of their own
// tokens, as keys and values, and read that of all. These functions gather it, or some heads of it (all_to_all.h).
// With a ring (ring.h), a carry that is a state, or a batch that is not shared, they send nothing and return the
// rank's own.
#pragma once
#include "kernels/model/carry.h"
#include "kernels/objectives/batch.h"

// Returns the carry of all ranks' tokens by position, [T B], of all heads or of this rank's; or own, [n B], itself.
// Release with carry_gathered_free.
struct carry carry_gather(struct model *model, const struct batch *batch, size_t layer, struct carry own);
void carry_gathered_free(struct model *model, const struct batch *batch, size_t layer, struct carry *gathered);
// The same, but frees own; release with carry_free.
struct carry carry_gather_take(struct model *model, const struct batch *batch, size_t layer, struct carry own);
// Zeroed gradients of a layer's carry from carry_gather, for chunks of `chunk` tokens from the right: they slide,
// if no ranks share the tokens.
struct carry carry_gradients_new(struct model *model, const struct batch *batch, size_t layer, size_t chunk);
// Sums the gradients over the ranks in their order and keeps those of this rank's own tokens, [n B]. True:
// kv_project_backward must follow; false: the cells' backward has used them.
bool carry_gradients_sum(struct model *model, const struct batch *batch, size_t layer, struct carry *gradients);
