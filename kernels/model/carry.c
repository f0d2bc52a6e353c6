#include "kernels/model/carry.h"

static void new_as(struct model *model, struct tensor *tensors, enum place place, struct pair_shape shape,
                   size_t rows, enum category category)
{
    for (size_t i = 0; i < CARRY_TENSORS; i++)
        if (shape.cols[i])
            tensors[i] = tensor_new_in(model->device, place, rows, shape.cols[i], shape.dtype[i], category);
}

static const struct mixer *mixer_of(const struct model *model, size_t layer)
{
    return config_mixer(&model->config, layer);
}

struct carry carry_new(struct model *model, size_t layer, enum place place, struct carry_size size)
{
    bool at_borders = mixer_of(model, layer)->at_borders;
    struct carry_shape shape = mixer_of(model, layer)->carry(model, layer);
    struct carry carry = {.border = at_borders ? size.chunk * size.batch : 0, .batch = size.batch};
    size_t borders = size.tokens ? (size.tokens - 1) / size.chunk : 0;
    new_as(model, carry.t, place, shape.value, (at_borders ? borders : size.tokens) * size.batch,
           CATEGORY_KV_CACHE);
    if (at_borders && size.prompts)
        new_as(model, carry.base, PLACE_DEVICE, shape.value, size.batch, CATEGORY_KV_CACHE);
    return carry;
}

struct carry carry_gradient_new(struct model *model, size_t layer, enum place place, struct carry_size size)
{
    bool at_borders = mixer_of(model, layer)->at_borders;
    struct carry_shape shape = mixer_of(model, layer)->carry(model, layer);
    struct carry carry = {.border = at_borders ? SIZE_MAX : 0, .batch = size.batch};
    new_as(model, carry.t, at_borders ? PLACE_DEVICE : place, shape.grad,
           (at_borders ? 1 : size.tokens) * size.batch, CATEGORY_KV_GRADIENTS);
    if (at_borders && size.prompts)
        new_as(model, carry.base, PLACE_DEVICE, shape.grad, size.batch, CATEGORY_KV_GRADIENTS);
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
    for (size_t i = 0; i < CARRY_TENSORS; i++) {
        if (carry.t[i].cols > 0)
            op_zero(model->device, carry.t[i]);
        if (carry.base[i].cols > 0)
            op_zero(model->device, carry.base[i]);
    }
}

void carry_free(struct model *model, struct carry *carry)
{
    for (size_t i = CARRY_TENSORS; i-- > 0;) {
        tensor_free(model->device, &carry->base[i]);
        tensor_free(model->device, &carry->t[i]);
    }
}

struct carry carry_rows(struct carry carry, size_t start, size_t count)
{
    if (carry.border) {
        size_t borders = carry.t[0].rows / carry.batch, first = start / carry.border;
        size_t end = count ? (start + count - 1) / carry.border + 1 : first;
        end = end < borders ? end : borders, first = first < end ? first : end;
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
