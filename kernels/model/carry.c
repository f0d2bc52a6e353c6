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

// Number of drawn chunks before chunk c.
static size_t drawn_before(const struct carry_draw *draw, size_t c)
{
    size_t first = 0, end = draw->chunks.count;
    while (first < end) {
        size_t middle = (first + end) / 2;
        if (draw->chunks.items[middle] < c)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

size_t carry_states(const struct carry_draw *draw, size_t c)
{
    // The left border of chunk 0 has none.
    return draw ? drawn_before(draw, c + 1) - drawn_before(draw, 1) + 1 : c + 1;
}

static size_t gaps_of(const struct carry_draw *draw)
{
    return draw && draw->passage != STATE_CUT && draw->chunks.count ? draw->gaps[draw->chunks.count - 1] : 0;
}

struct carry carry_new(struct model *model, size_t layer, enum place place, struct carry_size size)
{
    bool at_borders = mixer_of(model, layer)->at_borders;
    struct carry_shape shape = mixer_of(model, layer)->carry(model, layer);
    struct carry carry = {.border = at_borders ? size.chunk * size.batch : 0, .batch = size.batch};
    size_t borders = size.tokens ? (size.tokens - 1) / size.chunk : 0, gaps = gaps_of(size.draw);
    borders = borders ? carry_states(size.draw, borders - 1) : 0;
    new_as(model, carry.t, place, shape.value, (at_borders ? borders : size.tokens) * size.batch,
           CATEGORY_KV_CACHE);
    if (!at_borders)
        return carry;
    carry.draw = size.draw;
    if (size.prompts)
        new_as(model, carry.base, PLACE_DEVICE, shape.value, size.batch, CATEGORY_KV_CACHE);
    for (size_t i = 0; gaps && shape.transition && i < (size.prompts ? 2 : 1); i++)
        *(i ? &carry.base_transition : &carry.transition) =
            tensor_new(model->device, gaps * size.batch, shape.transition, shape.grad.dtype[0], CATEGORY_KV_CACHE);
    return carry;
}

struct carry carry_gradient_new(struct model *model, size_t layer, enum place place, struct carry_size size)
{
    bool at_borders = mixer_of(model, layer)->at_borders;
    struct carry_shape shape = mixer_of(model, layer)->carry(model, layer);
    size_t tokens = at_borders ? 1 : size.tokens, seen = shape.window + size.chunk - 1;
    bool slides = size.slides && shape.window > 0 && seen < tokens && !size.prompts;
    struct carry carry = {
        .border = at_borders ? SIZE_MAX : 0, .batch = size.batch, .own = slides ? size.chunk * size.batch : 0};
    new_as(model, carry.t, at_borders ? PLACE_DEVICE : place, shape.grad, (slides ? seen : tokens) * size.batch,
           CATEGORY_KV_GRADIENTS);
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
    tensor_free(model->device, &carry->base_transition);
    tensor_free(model->device, &carry->transition);
    for (size_t i = CARRY_TENSORS; i-- > 0;) {
        tensor_free(model->device, &carry->base[i]);
        tensor_free(model->device, &carry->t[i]);
    }
}

struct carry carry_rows(struct carry carry, size_t start, size_t count)
{
    if (carry.border) {
        size_t borders = carry.t[0].rows / carry.batch, chunk = start / carry.border;
        size_t first = carry_states(carry.draw, chunk) - 1;
        size_t end = count ? carry_states(carry.draw, (start + count - 1) / carry.border) : first;
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

struct carry_gap carry_gap_at(struct carry carry, size_t start)
{
    const struct carry_draw *draw = carry.draw;
    size_t right = draw ? drawn_before(draw, start / carry.border + 1) : 0;
    if (!draw || right == 0 || right == draw->chunks.count || draw->gaps[right] == draw->gaps[right - 1])
        return (struct carry_gap){0};
    size_t first = draw->chunks.items[right - 1] + 1, row = draw->gaps[right - 1] * carry.batch;
    return (struct carry_gap){.start = first * carry.border,
                              .rows = (draw->chunks.items[right] - first) * carry.border,
                              .transition = tensor_rows(carry.transition, row, carry.batch),
                              .base_transition = tensor_rows(carry.base_transition, row, carry.batch)};
}

// Sliding gradients' first row of the chunk's own; and how many of the rows before it the chunk at row `start`
// sees.
static size_t first_own(struct carry gradients)
{
    return gradients.t[0].rows - gradients.own;
}
static size_t seen(struct carry gradients, size_t start)
{
    return start < first_own(gradients) ? start : first_own(gradients);
}

struct carry_segment carry_segment_of(struct carry gradients, struct span chunk)
{
    size_t B = gradients.batch, rows = gradients.own ? seen(gradients, chunk.start * B) : 0;
    if (!gradients.own)
        return (struct carry_segment){.count = gradients.t[0].rows / B, .grad = gradients};
    return (struct carry_segment){.start = chunk.start - rows / B,
                                  .count = rows / B + chunk.count,
                                  .grad =
                                      carry_rows(gradients, first_own(gradients) - rows, rows + chunk.count * B)};
}

struct carry carry_alive(struct carry gradients, size_t start)
{
    size_t rows = seen(gradients, start);
    return carry_rows(gradients, first_own(gradients) - rows, rows);
}

struct carry carry_moved(struct carry gradients, size_t start)
{
    size_t rows = seen(gradients, start + gradients.own);
    return carry_rows(gradients, gradients.t[0].rows - rows, rows);
}

void carry_zero_new(struct model *model, struct carry gradients, size_t start)
{
    size_t first = first_own(gradients) - seen(gradients, start);
    size_t end = gradients.t[0].rows - seen(gradients, start + gradients.own);
    carry_zero(model, carry_rows(gradients, first, end - first));
}

void carry_slide(struct model *model, struct carry gradients, size_t start)
{
    if (!gradients.own)
        return;
    struct carry from = carry_alive(gradients, start + gradients.own), to = carry_moved(gradients, start);
    for (size_t i = 0; i < CARRY_TENSORS; i++) // from the right, in pieces that do not overlap their places
        for (size_t end = from.t[i].rows, count; end > 0; end -= count) {
            count = end < gradients.own ? end : gradients.own;
            op_copy(model->device, tensor_rows(to.t[i], end - count, count),
                    tensor_rows(from.t[i], end - count, count));
        }
    carry_zero_new(model, gradients, start);
}
