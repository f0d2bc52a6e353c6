#include "kernels/layers/projection.h"
#include "kernels/layers/projector.h"

// The projection's own rows of B: [out, rank]
static struct tensor own_rows(const struct projection *p, struct tensor b)
{
    return tensor_rows(b, p->lora_row, p->weight->value.rows);
}

static double scale_of(const struct projection *p)
{
    return p->scale > 0 ? p->scale : 1;
}

// x or grad_y times a factor: [n, rank]
static struct tensor narrow_new(struct model *model, const struct projection *p, struct tensor wide)
{
    return tensor_new(model->device, wide.rows, p->lora_a->value.rows, wide.dtype, CATEGORY_WORKSPACE);
}

// u = x A^T, and, if there is grad_u, grad_A += grad_u^T x; no tensor u: that alone.
static void pass_over_x(struct model *model, const struct projection *p, struct tensor u, struct tensor x,
                        struct tensor grad_u)
{
    op_low_rank(model->device, u, grad_u.data ? p->lora_a->grad : tensor_none(), x, p->lora_a->value, TRANSPOSE,
                grad_u, 1);
}

// grad_u = scale * grad_y B, and, if there is u, grad_B += scale * grad_y^T u; no tensor grad_u: that alone.
static void pass_over_grad_y(struct model *model, const struct projection *p, struct tensor grad_u,
                             struct tensor grad_y, struct tensor u)
{
    op_low_rank(model->device, grad_u, u.data ? own_rows(p, p->lora_b->grad) : tensor_none(), grad_y,
                own_rows(p, p->lora_b->value), NO_TRANSPOSE, u, p->lora_scale * scale_of(p));
}

// Makes grad_u, unless it is there.
static void make_grad_u(struct model *model, const struct projection *p, struct tensor *grad_u,
                        struct tensor grad_y)
{
    if (!grad_u->data) {
        *grad_u = narrow_new(model, p, grad_y);
        pass_over_grad_y(model, p, *grad_u, grad_y, tensor_none());
    }
}

// grad_A needs grad_u, grad_B needs u: one pass over the wider of x and grad_y makes one and uses the other.
static void factors_backward(struct model *model, const struct projection *p, struct tensor grad_y,
                             struct tensor *grad_u, struct tensor x)
{
    struct tensor u = narrow_new(model, p, x), none = tensor_none();
    if (grad_u->data || x.cols > grad_y.cols) {
        make_grad_u(model, p, grad_u, grad_y);
        pass_over_x(model, p, u, x, *grad_u);
        pass_over_grad_y(model, p, none, grad_y, u);
    } else {
        pass_over_x(model, p, u, x, none);
        *grad_u = narrow_new(model, p, grad_y);
        pass_over_grad_y(model, p, *grad_u, grad_y, u);
        pass_over_x(model, p, none, x, *grad_u);
    }
    tensor_free(model->device, &u);
}

static void add_bias(struct device *device, const struct projection *p, struct tensor y)
{
    struct tensor bias = p->bias->value, scaled = {0};
    if (scale_of(p) != 1) {
        scaled = tensor_new(device, 1, bias.cols, bias.dtype, CATEGORY_WORKSPACE);
        op_copy(device, scaled, bias);
        op_scale(device, scaled, scale_of(p));
    }
    op_bias_forward(device, y, scaled.data ? scaled : bias);
    tensor_free(device, &scaled);
}

static void bias_backward(struct device *device, const struct projection *p, struct tensor grad_y)
{
    struct tensor grad = p->bias->grad, sum = grad;
    if (scale_of(p) != 1) {
        sum = tensor_new(device, 1, grad.cols, grad.dtype, CATEGORY_WORKSPACE);
        op_zero(device, sum);
    }
    op_bias_backward(device, sum, grad_y);
    if (sum.data != grad.data) {
        op_scale(device, sum, scale_of(p));
        op_accumulate(device, grad, sum);
        tensor_free(device, &sum);
    }
}

// Adds the bias and the LoRA adapter's product, if there are any, to the weight's product.
static void add_rest(struct model *model, const struct projection *p, struct tensor y, struct tensor x)
{
    struct device *device = model->device;
    if (p->bias)
        add_bias(device, p, y);
    if (p->lora_a && !model->without_adapter) {
        struct tensor u = narrow_new(model, p, x);
        pass_over_x(model, p, u, x, tensor_none());
        op_gemm(device, y, u, NO_TRANSPOSE, own_rows(p, p->lora_b->value), TRANSPOSE, p->lora_scale * scale_of(p),
                1);
        tensor_free(device, &u);
    }
}

void projection_forward(struct model *model, const struct projection *p, struct tensor y, struct tensor x,
                        bool accumulate)
{
    op_gemm(model->device, y, x, NO_TRANSPOSE, p->weight->value, TRANSPOSE, scale_of(p), accumulate);
    add_rest(model, p, y, x);
}

void projection_forward_onto(struct model *model, const struct projection *p, struct tensor y, struct tensor onto,
                             struct tensor x)
{
    struct device *device = model->device;
    if (device->unfused || scale_of(p) != 1) {
        op_copy(device, y, onto);
        op_gemm(device, y, x, NO_TRANSPOSE, p->weight->value, TRANSPOSE, scale_of(p), 1);
    } else {
        op_gemm_onto(device, y, onto, x, NO_TRANSPOSE, p->weight->value, TRANSPOSE);
    }
    add_rest(model, p, y, x);
}

void projection_backward_input(struct model *model, const struct projection *p, struct tensor grad_x,
                               struct tensor grad_y, struct tensor *grad_u, bool accumulate)
{
    struct device *device = model->device;
    op_gemm(device, grad_x, grad_y, NO_TRANSPOSE, p->weight->value, NO_TRANSPOSE, scale_of(p), accumulate);
    if (p->lora_a) {
        make_grad_u(model, p, grad_u, grad_y);
        op_gemm(device, grad_x, *grad_u, NO_TRANSPOSE, p->lora_a->value, NO_TRANSPOSE, 1, 1);
    }
}

void projection_backward_weights(struct model *model, const struct projection *p, struct tensor grad_y,
                                 struct tensor *grad_u, struct tensor x)
{
    struct device *device = model->device;
    if (p->weight->grad.data && p->weight->projected)
        projector_add(device, p->weight->grad, p->weight->projector, grad_y, x, scale_of(p));
    else if (p->weight->grad.data)
        op_gemm(device, p->weight->grad, grad_y, TRANSPOSE, x, NO_TRANSPOSE, scale_of(p), 1);
    if (p->bias && p->bias->grad.data)
        bias_backward(device, p, grad_y);
    if (p->lora_a && p->lora_a->grad.data)
        factors_backward(model, p, grad_y, grad_u, x);
}

void projection_backward(struct model *model, const struct projection *p, struct tensor grad_x,
                         struct tensor grad_y, struct tensor x)
{
    struct tensor grad_u = {0};
    projection_backward_weights(model, p, grad_y, &grad_u, x);
    projection_backward_input(model, p, grad_x, grad_y, &grad_u, false);
    tensor_free(model->device, &grad_u);
}
