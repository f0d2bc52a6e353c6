#include "kernels/transformer/weights.h"
#include "kernels/base/queue.h"
#include "kernels/transformer/bucket.h"
#include "kernels/transformer/unit_parameters.h"
#include <string.h>

// Whether every weight is what the walk takes, and where.
static bool weights_stay(const struct model *model)
{
    return model->weights_place == PLACE_DEVICE && model->quantisation == QUANTISATION_NONE;
}

// Of the shape alone.
static void value_none(struct model *model, struct parameter *p)
{
    p->value = (struct tensor){.dtype = model->device->ops->dtype,
                               .category = CATEGORY_WEIGHTS,
                               .rows = p->value.rows,
                               .cols = p->value.cols};
}

static void parameter_new(struct model *model, struct parameter *p)
{
    struct device *device = model->device;
    enum place place = model->weights_place;
    size_t count = tensor_count(p->value);
    value_none(model, p);
    struct tensor value = p->value;
    if (bucket_has_values(model, p)) {
        return;
    }
    if (is_kept_as_codes(model, p)) {
        size_t words = quantised_words(model->quantisation, count);
        p->kept[0] = tensor_new_in(device, place, words, 1, DTYPE_I32, CATEGORY_WEIGHTS);
        p->kept[1] = tensor_new_in(device, place, quantised_blocks(count), 1, DTYPE_F32, CATEGORY_WEIGHTS);
    } else if (place == PLACE_HOST) {
        p->kept[0] = tensor_new_in(device, place, value.rows, value.cols, value.dtype, CATEGORY_WEIGHTS);
    } else {
        p->value = tensor_new(device, value.rows, value.cols, value.dtype, CATEGORY_WEIGHTS);
    }
}

void weights_new(struct model *model, size_t unit)
{
    struct parameters parameters = unit_parameters(model, unit);
    for (size_t i = 0; i < parameters.count; i++) {
        if (model_has(model, &parameters.items[i])) {
            parameter_new(model, &parameters.items[i]);
        }
    }
    bucket_new_values(model, unit);
}

void weights_free(struct model *model, size_t unit)
{
    struct parameters parameters = unit_parameters(model, unit);
    for (size_t i = 0; i < parameters.count; i++) {
        struct parameter *p = &parameters.items[i];
        if (!bucket_has_values(model, p)) {
            tensor_free(model->device, &p->value);
        }
        for (size_t part = 0; part < PARAMETER_PARTS; part++) {
            tensor_free(model->device, &p->kept[part]);
            tensor_free(model->device, &p->fetched[part]);
        }
    }
    bucket_free_values(model, unit);
}

void weights_write(struct model *model, struct parameter *p, size_t first, size_t count, double *values,
                   enum dtype rounding)
{
    struct device *device = model->device;
    enum quantisation q = model->quantisation;
    for (size_t i = 0; i < count; i++) {
        values[i] = dtype_round(values[i], rounding);
    }
    if (is_quantised(model, p)) {
        size_t words = quantised_words(q, count), blocks = quantised_blocks(count);
        uint32_t *codes = malloc((words + 1) * sizeof *codes);
        float *scales = malloc((blocks + 1) * sizeof *scales);
        CHECK(codes && scales && first % QUANTISATION_BLOCK == 0);
        quantise(q, values, count, codes, scales);
        if (!is_kept_as_codes(model, p)) {
            dequantise(q, codes, scales, count, rounding, values);
        } else if (bucket_has_values(model, p)) {
            bucket_write_codes(model, p, first, count, codes, scales);
        } else {
            op_upload(device, tensor_elements(p->kept[0], quantised_words(q, first), words), codes);
            op_upload(device, tensor_elements(p->kept[1], quantised_blocks(first), blocks), scales);
        }
        free(scales);
        free(codes);
    }
    if (is_kept_as_codes(model, p)) {
        return;
    }
    if (bucket_has_values(model, p)) {
        bucket_write(model, p, first, count, values);
    } else {
        tensor_write(device, tensor_elements(p->kept[0].data ? p->kept[0] : p->value, first, count), values);
    }
}

void weights_prefetch_one(struct model *model, struct parameter *p)
{
    for (size_t part = 0; part < PARAMETER_PARTS && p->kept[part].place == PLACE_HOST; part++) {
        p->fetched[part] = tensor_copy_in(model->device, p->kept[part]);
    }
}

void weights_acquire_one(struct model *model, struct parameter *p)
{
    struct tensor value = p->value, *near = p->kept[0].place == PLACE_HOST ? p->fetched : p->kept;
    if (is_kept_as_codes(model, p)) {
        p->value = tensor_new(model->device, value.rows, value.cols, value.dtype, value.category);
        op_dequantise(model->device, p->value, model->quantisation, near[0], near[1]);
        tensor_free(model->device, &p->fetched[0]);
        tensor_free(model->device, &p->fetched[1]);
    } else if (near[0].data) {
        p->value = near[0];
        p->fetched[0] = tensor_none();
    }
}

void weights_offload_one(struct model *model, struct parameter *p)
{
    if (p->kept[0].place == PLACE_HOST && !is_kept_as_codes(model, p)) {
        copy_out(model->device, p->kept[0], p->value);
    }
}

void weights_release_one(struct model *model, struct parameter *p)
{
    if (p->kept[0].data) {
        struct tensor value = p->value;
        tensor_free(model->device, &value);
        value_none(model, p);
    }
}

void weights_prefetch(struct model *model, size_t unit)
{
    struct device *device = model->device;
    struct transit *transit = &model->transits[unit];
    struct parameters parameters = unit_parameters(model, unit);
    bucket_prefetch(model, unit);
    if (model->weights_place != PLACE_HOST || transit->prefetched) {
        return;
    }
    transit->prefetched = true;
    for (size_t i = 0; i < parameters.count; i++) {
        weights_prefetch_one(model, &parameters.items[i]);
    }
    transit->in = event_record(device, QUEUE_IN);
}

void weights_settle(struct model *model)
{
    for (size_t unit = 0; unit < unit_count(model); unit++) {
        struct parameters parameters = unit_parameters(model, unit);
        event_wait(model->device, QUEUE_COMPUTE, model->transits[unit].in);
        for (size_t i = 0; i < parameters.count; i++) {
            tensor_free(model->device, &parameters.items[i].fetched[0]);
            tensor_free(model->device, &parameters.items[i].fetched[1]);
        }
        model->transits[unit].prefetched = false;
        model->transits[unit].in = (struct event){0};
        bucket_settle(model, unit);
    }
}

void weights_acquire(struct model *model, size_t unit)
{
    struct parameters parameters = unit_parameters(model, unit);
    size_t changing = weights_stay(model) ? 0 : parameters.count;
    weights_prefetch(model, unit);
    event_wait(model->device, QUEUE_COMPUTE, model->transits[unit].in);
    bucket_acquire(model, unit);
    for (size_t i = 0; i < changing; i++) {
        weights_acquire_one(model, &parameters.items[i]);
    }
    model->transits[unit].prefetched = false;
    model->transits[unit].in = (struct event){0};
}

void weights_release(struct model *model, size_t unit)
{
    struct parameters parameters = unit_parameters(model, unit);
    size_t changing = weights_stay(model) ? 0 : parameters.count;
    for (size_t i = 0; i < changing; i++) {
        weights_release_one(model, &parameters.items[i]);
    }
    bucket_release(model, unit);
}
