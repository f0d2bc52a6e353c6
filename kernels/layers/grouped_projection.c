#include "kernels/layers/grouped_projection.h"

static struct tensor rows_new(struct model *model, struct tensor of, size_t cols)
{
    return tensor_new(model->device, of.rows, cols, of.dtype, CATEGORY_WORKSPACE);
}

void grouped_product(struct model *model, struct expert_rows rows, struct tensor c, struct tensor a,
                     struct tensor matrices, enum transpose transpose)
{
    if (rows.experts > rows.starts.rows - 1)
        op_zero(model->device, c);
    op_grouped_gemm(model->device, rows, c, a, NO_TRANSPOSE, matrices, transpose, 1);
}

// x A_e^T or lora_scale * grad_y B_e: [R, rank]
static struct tensor narrow_new(struct model *model, struct expert_rows rows, const struct parameter *factor,
                                enum transpose transpose, struct tensor wide, double scale)
{
    struct tensor value = factor->value;
    struct tensor u = rows_new(model, wide, transpose ? value.rows / factor->experts : value.cols);
    grouped_product(model, rows, u, wide, value, transpose);
    if (scale != 1)
        op_scale(model->device, u, scale);
    return u;
}

// wide += u times a factor's matrices.
static void add_product(struct model *model, struct expert_rows rows, struct tensor wide, struct tensor u,
                        const struct parameter *factor, enum transpose transpose)
{
    struct tensor made = rows_new(model, wide, wide.cols);
    grouped_product(model, rows, made, u, factor->value, transpose);
    op_accumulate(model->device, wide, made);
    tensor_free(model->device, &made);
}

void grouped_projection_forward(struct model *model, struct expert_rows rows, const struct projection *p,
                                struct tensor y, struct tensor x)
{
    grouped_product(model, rows, y, x, p->weight->value, TRANSPOSE);
    if (p->lora_a && !model->without_adapter) {
        struct tensor u = narrow_new(model, rows, p->lora_a, TRANSPOSE, x, p->lora_scale);
        add_product(model, rows, y, u, p->lora_b, TRANSPOSE);
        tensor_free(model->device, &u);
    }
}

static void make_grad_u(struct model *model, struct expert_rows rows, const struct projection *p,
                        struct tensor *grad_u, struct tensor grad_y)
{
    if (!grad_u->data)
        *grad_u = narrow_new(model, rows, p->lora_b, NO_TRANSPOSE, grad_y, p->lora_scale);
}

void grouped_projection_backward_input(struct model *model, struct expert_rows rows, const struct projection *p,
                                       struct tensor grad_x, struct tensor grad_y, struct tensor *grad_u)
{
    grouped_product(model, rows, grad_x, grad_y, p->weight->value, NO_TRANSPOSE);
    if (p->lora_a) {
        make_grad_u(model, rows, p, grad_u, grad_y);
        add_product(model, rows, grad_x, *grad_u, p->lora_a, NO_TRANSPOSE);
    }
}

void grouped_projection_backward_weights(struct model *model, struct expert_rows rows, const struct projection *p,
                                         struct tensor grad_y, struct tensor *grad_u, struct tensor x)
{
    struct device *device = model->device;
    CHECK(!p->weight->projected);
    if (p->weight->grad.data)
        op_grouped_gemm(device, rows, p->weight->grad, grad_y, TRANSPOSE, x, NO_TRANSPOSE, 1);
    if (!p->lora_a || !p->lora_a->grad.data)
        return;
    make_grad_u(model, rows, p, grad_u, grad_y);
    op_grouped_gemm(device, rows, p->lora_a->grad, *grad_u, TRANSPOSE, x, NO_TRANSPOSE, 1);
    struct tensor u = narrow_new(model, rows, p->lora_a, TRANSPOSE, x, 1);
    op_grouped_gemm(device, rows, p->lora_b->grad, grad_y, TRANSPOSE, u, NO_TRANSPOSE, p->lora_scale);
    tensor_free(device, &u);
}
