// MLP: the second block of a cell, in blocks of rows: y = x + down(act(gate h) * (up h)), h the norm of x, or x;
// with a norm of the block's output x + norm(down(...)).
#pragma once
#include "kernels/attention/activations.h"

// y = mlp(x_mid). y may be x_mid, or no tensor: then only what the backward needs is computed. KEEP_NOTHING: gate
// and up are scratch.
void mlp_forward(struct model *model, size_t layer, struct tensor x_mid, struct tensor y, struct activations *a,
                 enum keep how);
// grad: that of y, becomes that of x_mid. Weight gradients are added; what a keeps for this alone is freed.
void mlp_backward(struct model *model, size_t layer, struct activations *a, struct tensor grad);
