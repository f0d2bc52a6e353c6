#include "kernels/transformer/projection.h"
#include "kernels/transformer/projector.h"

// The projection's own rows of B: [out, rank]
static struct tensor own_rows(const struct projection *p, struct tensor b)
{
    return tensor_rows(b, p->lora_row, p->weight->value.rows);
}

// x A^T: [n, rank]
static struct tensor lora_down(struct model *model, const struct projection *p, struct tensor x)
{
    struct device *device = model->device;
    struct tensor u = tensor_new(device, x.rows, p->lora_a->value.rows, x.dtype, CATEGORY_WORKSPACE);
    op_gemm(device, u, x, NO_TRANSPOSE, p->lora_a->value, TRANSPOSE, 1, 0);
    return u;
}

// grad_u = scale * grad_y B, unless it is there.
static void lora_grad_down(struct model *model, const struct projection *p, struct tensor *grad_u,
                           struct tensor grad_y)
{
    struct device *device = model->device;
    if (grad_u->data) {
        return;
    }
    *grad_u = tensor_new(device, grad_y.rows, p->lora_a->value.rows, grad_y.dtype, CATEGORY_WORKSPACE);
    op_gemm(device, *grad_u, grad_y, NO_TRANSPOSE, own_rows(p, p->lora_b->value), NO_TRANSPOSE, p->lora_scale, 0);
}

// Adds the bias and the LoRA adapter's product, if there are any, to the weight's product.
static void add_rest(struct model *model, const struct projection *p, struct tensor y, struct tensor x)
{
    struct device *device = model->device;
    if (p->bias) {
        op_bias_forward(device, y, p->bias->value);
    }
    if (p->lora_a && !model->without_adapter) {
        struct tensor u = lora_down(model, p, x);
        op_gemm(device, y, u, NO_TRANSPOSE, own_rows(p, p->lora_b->value), TRANSPOSE, p->lora_scale, 1);
        tensor_free(device, &u);
    }
}

void projection_forward(struct model *model, const struct projection *p, struct tensor y, struct tensor x,
                        bool accumulate)
{
    op_gemm(model->device, y, x, NO_TRANSPOSE, p->weight->value, TRANSPOSE, 1, accumulate);
    add_rest(model, p, y, x);
}

void projection_forward_onto(struct model *model, const struct projection *p, struct tensor y, struct tensor onto,
                             struct tensor x)
{
    struct device *device = model->device;
    if (device->unfused) {
        op_copy(device, y, onto);
        op_gemm(device, y, x, NO_TRANSPOSE, p->weight->value, TRANSPOSE, 1, 1);
    } else {
        op_gemm_onto(device, y, onto, x, NO_TRANSPOSE, p->weight->value, TRANSPOSE);
    }
    add_rest(model, p, y, x);
}

void projection_backward_input(struct model *model, const struct projection *p, struct tensor grad_x,
                               struct tensor grad_y, struct tensor *grad_u, bool accumulate)
{
    struct device *device = model->device;
    op_gemm(device, grad_x, grad_y, NO_TRANSPOSE, p->weight->value, NO_TRANSPOSE, 1, accumulate);
    if (p->lora_a) {
        lora_grad_down(model, p, grad_u, grad_y);
        op_gemm(device, grad_x, *grad_u, NO_TRANSPOSE, p->lora_a->value, NO_TRANSPOSE, 1, 1);
    }
}

void projection_backward_weights(struct model *model, const struct projection *p, struct tensor grad_y,
                                 struct tensor *grad_u, struct tensor x)
{
    struct device *device = model->device;
    if (p->weight->grad.data && p->weight->projected) {
        projector_add(device, p->weight->grad, p->weight->projector, grad_y, x);
    } else if (p->weight->grad.data) {
        op_gemm(device, p->weight->grad, grad_y, TRANSPOSE, x, NO_TRANSPOSE, 1, 1);
    }
    if (p->bias && p->bias->grad.data) {
        op_bias_backward(device, p->bias->grad, grad_y);
    }
    if (p->lora_a && p->lora_a->grad.data) {
        struct tensor u = lora_down(model, p, x);
        op_gemm(device, own_rows(p, p->lora_b->grad), grad_y, TRANSPOSE, u, NO_TRANSPOSE, p->lora_scale, 1);
        tensor_free(device, &u);
        lora_grad_down(model, p, grad_u, grad_y);
        op_gemm(device, p->lora_a->grad, *grad_u, TRANSPOSE, x, NO_TRANSPOSE, 1, 1);
    }
}

void projection_backward(struct model *model, const struct projection *p, struct tensor grad_x,
                         struct tensor grad_y, struct tensor x)
{
    struct tensor grad_u = {0};
    projection_backward_weights(model, p, grad_y, &grad_u, x);
    projection_backward_input(model, p, grad_x, grad_y, &grad_u, false);
    tensor_free(model->device, &grad_u);
}
