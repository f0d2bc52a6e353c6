// Rotation: from what is projected to the queries and keys that attention reads: their norm, RoPE, and the scale of
// queries; and back.
#pragma once
#include "kernels/model/model.h"
#include "kernels/objectives/batch.h"

// The queries or the keys of a layer: their heads, the gain of their norm if they have one, and what they are
// multiplied by.
struct rotated {
    size_t layer, heads;
    const struct parameter *norm; // NULL: none
    double scale;                 // 0: 1
    double gain;                  // of what turns; 0: 1
    struct position_scale by_position;
};
// The frequencies of RoPE in the layer, which longrope and dynamic choose by the step's longest document.
struct tensor rotation_frequencies(struct model *model, const struct batch *batch, size_t layer);
// Rows of their norm per row of theirs: one per head, or one of all.
size_t rotated_norms(const struct model *model, struct rotated of);
// The norm alone, if any: of rows x: [n, heads * D] to y, rstd: [n * rotated_norms, 1] or no tensor.
void rotated_norm(struct model *model, struct rotated of, struct tensor y, struct tensor rstd, struct tensor x);
// y = scale * rope(norm(x)). y may be x; without a norm it is. rstd may be no tensor.
void rotate(struct model *model, const struct batch *batch, struct rotated of, struct tensor y, struct tensor rstd,
            struct tensor x, struct span tokens);
// grad: that of y above, becomes that of x, which was `projected` before its norm.
void rotate_backward(struct model *model, const struct batch *batch, struct rotated of, struct tensor grad,
                     struct tensor rstd, struct tensor projected, struct span tokens);
