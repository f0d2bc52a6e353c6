#include "kernels/layers/norm.h"

void norm_forward(struct model *model, const struct parameter *gain, struct tensor y, struct tensor rstd,
                  struct tensor x)
{
    const struct config *c = &model->config;
    op_rmsnorm_forward(model->device, y, rstd, x, gain->value, c->unit_offset, c->norm_epsilon);
}

void norm_backward(struct model *model, const struct parameter *gain, struct tensor grad_x, bool accumulate,
                   struct tensor grad_y, struct tensor x, struct tensor rstd)
{
    op_rmsnorm_backward(model->device, grad_x, accumulate, gain->grad, grad_y, x, gain->value,
                        model->config.unit_offset, rstd);
}
