// Grouped projection: a projection (kernels/layers/projection.h) whose rows are permuted and each take the matrices
// of their expert:
//   y[r] = x[r] W_e^T (+ lora_scale (x[r] A_e^T) B_e^T)   W: [E out, in], A: [E rank, in], B: [E out, rank]
// The sum W_e + lora_scale B_e A_e is never made. Biases are the caller's.
#pragma once
#include "kernels/layers/projection.h"

// c[r] = a[r] matrices_e, transposed or not. Rows of experts that are other ranks' become 0, here and below.
void grouped_product(struct model *model, struct expert_rows rows, struct tensor c, struct tensor a,
                     struct tensor matrices, enum transpose transpose);
// y = projection(x); a model without_adapter: less the factors'.  x: [R, in], y: [R, out]
void grouped_projection_forward(struct model *model, struct expert_rows rows, const struct projection *p,
                                struct tensor y, struct tensor x);
// The two parts of the backward, as a projection's: grad_x = grad_y dy/dx; and gradients of what trains, which +=.
// grad_u = lora_scale * grad_y[r] B_e: [R, rank].
void grouped_projection_backward_input(struct model *model, struct expert_rows rows, const struct projection *p,
                                       struct tensor grad_x, struct tensor grad_y, struct tensor *grad_u);
void grouped_projection_backward_weights(struct model *model, struct expert_rows rows, const struct projection *p,
                                         struct tensor grad_y, struct tensor *grad_u, struct tensor x);
