#include "kernels/layers/norm.h"
#include "kernels/layers/cell_memory.h"

static struct norm_shape shape_of(const struct model *model)
{
    const struct config *c = &model->config;
    return (struct norm_shape){c->unit_offset, c->norm_epsilon, c->centred};
}

struct tensor norm_statistics(struct model *model, size_t rows)
{
    return statistic(model, rows, model->config.centred ? 2 : 1);
}

void norm_forward(struct model *model, const struct parameter *gain, struct tensor y, struct tensor rstd,
                  struct tensor x)
{
    op_rmsnorm_forward(model->device, y, rstd, x, gain ? gain->value : tensor_none(), shape_of(model));
}

void norm_backward(struct model *model, const struct parameter *gain, struct tensor grad_x, bool accumulate,
                   struct tensor grad_y, struct tensor x, struct tensor rstd)
{
    op_rmsnorm_backward(model->device, grad_x, accumulate, gain ? gain->grad : tensor_none(), grad_y, x,
                        gain ? gain->value : tensor_none(), shape_of(model), rstd);
}
