// Projection: a linear map of the decoder, with its bias and LoRA factors, and its gradients.
//   y = scale (x W^T (+ bias) (+ lora_scale * (x A^T) B^T))      W: [out, in], A: [rank, in], B: [out, rank]
// LoRA: Hu et al. 2021, equation 3. W's gradient exists only where W trains.
#pragma once
#include "kernels/model/model.h"

// y = projection(x), or y += the product when accumulate; a model without_adapter: less the factors'.  x: [n, in],
// y: [n, out]
void projection_forward(struct model *model, const struct projection *p, struct tensor y, struct tensor x,
                        bool accumulate);
// y = onto + projection(x); y and onto, [n, out], are apart.
void projection_forward_onto(struct model *model, const struct projection *p, struct tensor y, struct tensor onto,
                             struct tensor x);
// The backward has two parts, in any order, that both need grad_u = scale * grad_y B: [n, rank]. `*grad_u` is no
// tensor before the first of them, the one that needs it makes it, and the caller frees it after the second.
//
// grad_x = grad_y dy/dx, or +=.
void projection_backward_input(struct model *model, const struct projection *p, struct tensor grad_x,
                               struct tensor grad_y, struct tensor *grad_u, bool accumulate);
// Gradients of the weights += what grad_y and x give; nothing for what is frozen.
void projection_backward_weights(struct model *model, const struct projection *p, struct tensor grad_y,
                                 struct tensor *grad_u, struct tensor x);
// Whether that reads x.
static inline bool projection_trains(const struct projection *p)
{
    return p->weight->grad.data || (p->lora_a && p->lora_a->grad.data);
}
// Both, the weights first: grad_x may be x.
void projection_backward(struct model *model, const struct projection *p, struct tensor grad_x,
                         struct tensor grad_y, struct tensor x);
