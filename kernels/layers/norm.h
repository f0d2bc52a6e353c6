// Norm: RMSNorm or LayerNorm with the model's epsilon and the offset of its gains.
#pragma once
#include "kernels/model/model.h"

// Statistics of each row, from norm_forward for norm_backward: [rows, 1], or of LayerNorm [rows, 2].
struct tensor norm_statistics(struct model *model, size_t rows);
// As op_rmsnorm_forward and op_rmsnorm_backward. gain NULL: none.
void norm_forward(struct model *model, const struct parameter *gain, struct tensor y, struct tensor rstd,
                  struct tensor x);
void norm_backward(struct model *model, const struct parameter *gain, struct tensor grad_x, bool accumulate,
                   struct tensor grad_y, struct tensor x, struct tensor rstd);
