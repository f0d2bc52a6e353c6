#include "kernels/model/carry.h"

static struct carry new_as(struct model *model, enum place place, struct pair_shape shape, size_t rows,
                           enum category category)
{
    struct carry carry = {0};
    for (size_t i = 0; i < CARRY_TENSORS; i++)
        if (shape.cols[i])
            carry.t[i] = tensor_new_in(model->device, place, rows, shape.cols[i], shape.dtype[i], category);
    return carry;
}

static struct carry_shape shape_of(const struct model *model, size_t layer)
{
    return config_mixer(&model->config, layer)->carry(model, layer);
}

struct carry carry_new(struct model *model, size_t layer, enum place place, struct carry_size size)
{
    struct carry_shape shape = shape_of(model, layer);
    size_t borders = size.tokens ? (size.tokens - 1) / size.chunk + 1 : 0;
    struct carry carry = new_as(model, place, shape.value, (shape.at_borders ? borders : size.tokens) * size.batch,
                                CATEGORY_KV_CACHE);
    carry.border = shape.at_borders ? size.chunk * size.batch : 0;
    carry.batch = size.batch;
    return carry;
}

struct carry carry_gradient_new(struct model *model, size_t layer, enum place place, struct carry_size size)
{
    struct carry_shape shape = shape_of(model, layer);
    struct carry carry =
        new_as(model, place, shape.grad, (shape.at_borders ? 1 : size.tokens) * size.batch, CATEGORY_KV_GRADIENTS);
    carry.border = shape.at_borders ? SIZE_MAX : 0;
    carry.batch = size.batch;
    return carry;
}

struct carry carry_like(struct model *model, struct carry carry, size_t rows, enum dtype dtype,
                        enum category category)
{
    for (size_t i = 0; i < CARRY_TENSORS; i++)
        carry.t[i] = tensor_new(model->device, rows, carry.t[i].cols, dtype, category);
    return carry;
}

void carry_zero(struct model *model, struct carry carry)
{
    for (size_t i = 0; i < CARRY_TENSORS; i++)
        if (carry.t[i].cols > 0)
            op_zero(model->device, carry.t[i]);
}

void carry_free(struct model *model, struct carry *carry)
{
    for (size_t i = 0; i < CARRY_TENSORS; i++)
        tensor_free(model->device, &carry->t[i]);
}

struct carry carry_rows(struct carry carry, size_t start, size_t count)
{
    if (carry.border) {
        size_t first = start / carry.border, end = count ? (start + count - 1) / carry.border + 1 : first;
        start = first * carry.batch, count = (end - first) * carry.batch;
    }
    for (size_t i = 0; i < CARRY_TENSORS; i++)
        carry.t[i] = tensor_rows(carry.t[i], start, count);
    return carry;
}

struct carry carry_before(struct carry carry, size_t start)
{
    return start ? carry_rows(carry, start - carry.border, carry.border) : (struct carry){0};
}
