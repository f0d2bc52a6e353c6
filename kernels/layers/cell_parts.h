// Cell parts: what the halves of a cell and the projection of keys and values have in common. For cell.c and
// kv_project.c alone.
#pragma once
#include "kernels/attention/activations.h"
#include "kernels/attention/kv.h"
#include "kernels/device/observer.h"
#include "kernels/layers/blocks.h"
#include "kernels/layers/cell_memo.h"
#include "kernels/layers/cell_memory.h"
#include "kernels/layers/norm.h"
#include "kernels/layers/projection.h"
#include "kernels/layers/rotation.h"
#include "kernels/model/unit.h"
#include "kernels/objectives/batch.h"

static inline void cell_range_push(struct model *model, const char *name, size_t layer, size_t start)
{
    range_push(model->device, (struct range){.level = RANGE_CELL, .name = name, .layer = layer, .start = start});
}

// What the cost of a part with attention depends on.
struct cell_key cell_key_of(const struct model *model, const struct batch *batch, enum cell_part part, size_t layer,
                            struct span chunk, size_t rows);
// Results of one pass over a chunk's x, in which x is normed once: products of its norm, or of x, before their
// own norms and RoPE, and statistics. No tensor: not that one.
struct projected {
    struct tensor q, k, v, h; // h: the norm of x
    struct tensor rstd, rstd_k;
};
void projections_forward(struct model *model, size_t layer, struct tensor x, const struct projected *to);
// The queries of n rows, a->q, and what is kept with them of the norm of x.
struct projected projected_queries(struct model *model, size_t layer, size_t n, struct activations *a,
                                   enum keep how);
// From the gradients of q, k and v, as attention's backward leaves them, to that of x, if any, added to grad; of
// q's alone, or of those of k and v, where the others are NULL.
void projections_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                          struct activations *a, const struct tensor *grad_q, const struct kv *grad_kv,
                          struct tensor grad);
