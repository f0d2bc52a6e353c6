// Norm: RMSNorm with the model's epsilon and the offset of its gains.
#pragma once
#include "kernels/model/model.h"

// As op_rmsnorm_forward and op_rmsnorm_backward.
void norm_forward(struct model *model, const struct parameter *gain, struct tensor y, struct tensor rstd,
                  struct tensor x);
void norm_backward(struct model *model, const struct parameter *gain, struct tensor grad_x, bool accumulate,
                   struct tensor grad_y, struct tensor x, struct tensor rstd);
