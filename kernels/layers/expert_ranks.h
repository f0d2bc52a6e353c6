// Expert ranks: ranks that share the experts of every layer (struct ranks). Each has tokens of its own, as many as
// the others. Every rank gets all of their rows, computes those of its own experts, and sends the results back:
// sizes are shapes, whatever experts tokens choose.
#pragma once
#include "kernels/model/model.h"

// The rows of all ranks, in their order, of which `own` are this rank's. Release with tensor_free.
struct tensor expert_ranks_gather(struct model *model, struct tensor own);
// all: each rank's part of these rows. Adds the sum of this rank's rows to own, of the same dtype. Parts are added
// in the ranks' order; with `rounds` they and their sum are rounded to the model's dtype.
void expert_ranks_sum(struct model *model, struct tensor own, struct tensor all, bool rounds);
