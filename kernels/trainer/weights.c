#include "kernels/trainer/weights.h"
#include "kernels/device/queue.h"
#include <string.h>

// Tells whether every weight is stored as steps use it, and on the device.
static bool weights_stay(const struct weights *weights)
{
    return weights->place == PLACE_DEVICE && weights->buckets->quantisation == QUANTISATION_NONE;
}

// Drops the value but keeps its shape.
static void value_none(struct model *model, struct parameter *p)
{
    p->value = (struct tensor){.dtype = parameter_dtype(p, model->device->ops->dtype),
                               .category = CATEGORY_WEIGHTS,
                               .rows = p->value.rows,
                               .cols = p->value.cols};
}

void weights_quantise(struct model *model, enum quantisation quantisation, bool dequantised)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        if (quantisation != QUANTISATION_NONE && p->factor == FACTOR_NONE && is_layer_matrix(model, p)) {
            p->quantisation = quantisation;
            p->coded = !dequantised;
        }
    }
}

static void parameter_new(struct weights *weights, struct parameter *p)
{
    struct model *model = weights->model;
    struct device *device = model->device;
    enum place place = weights->place;
    size_t count = tensor_count(p->value);
    value_none(model, p);
    struct tensor value = p->value;
    if (bucket_has_values(p))
        return;
    if (p->coded) {
        size_t words = quantised_words(p->quantisation, count);
        size_t scales = quantised_scale_words(p->quantisation, count);
        p->kept[0] = tensor_new_in(device, place, words, 1, DTYPE_I32, CATEGORY_WEIGHTS);
        p->kept[1] = tensor_new_in(device, place, scales, 1, DTYPE_I32, CATEGORY_WEIGHTS);
    } else if (place == PLACE_HOST) {
        p->kept[0] = tensor_new_in(device, place, value.rows, value.cols, value.dtype, CATEGORY_WEIGHTS);
    } else {
        p->value = tensor_new(device, value.rows, value.cols, value.dtype, CATEGORY_WEIGHTS);
    }
}

void weights_open(struct weights *weights, struct model *model, struct buckets *buckets, enum place place)
{
    *weights = (struct weights){.model = model, .buckets = buckets, .place = place};
    weights->fetches = calloc(unit_count(model), sizeof *weights->fetches);
    for (size_t unit = 0; unit < unit_count(model); unit++) {
        FOR_PARAMETERS (p, model, unit)
            if (model_has(model, p))
                parameter_new(weights, p);
        bucket_new_values(buckets, unit);
    }
}

void weights_close(struct weights *weights)
{
    struct model *model = weights->model;
    for (size_t i = 0; i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        if (!bucket_has_values(p))
            tensor_free(model->device, &p->value);
        for (size_t part = 0; part < PARAMETER_PARTS; part++) {
            tensor_free(model->device, &p->kept[part]);
            tensor_free(model->device, &p->fetched[part]);
        }
    }
    for (size_t unit = 0; unit < unit_count(model); unit++)
        bucket_free_values(weights->buckets, unit);
    free(weights->fetches);
}

void weights_write(struct model *model, struct parameter *p, size_t first, size_t count, double *values,
                   enum dtype rounding)
{
    struct device *device = model->device;
    enum quantisation q = p->quantisation;
    size_t from = first > p->first ? first : p->first, end = p->first + tensor_count(p->value);
    size_t to = first + count < end ? first + count : end;
    if (from >= to)
        return;
    values += from - first;
    first = from - p->first;
    count = to - from;
    for (size_t i = 0; i < count; i++)
        values[i] = dtype_round(values[i], parameter_dtype(p, rounding));
    if (q) {
        size_t words = quantised_words(q, count), scale_words = quantised_scale_words(q, count);
        uint32_t *codes = malloc((words + 1) * sizeof *codes);
        uint32_t *scales = malloc((scale_words + 1) * sizeof *scales);
        CHECK(codes && scales && first % QUANTISATION_WHOLE == 0);
        quantise(q, values, count, codes, scales);
        if (!p->coded) {
            dequantise(q, codes, scales, count, rounding, values);
        } else if (bucket_has_values(p)) {
            bucket_write_codes(p, first, count, codes, scales);
        } else {
            op_upload(device, tensor_elements(p->kept[0], quantised_words(q, first), words), codes);
            op_upload(device, tensor_elements(p->kept[1], quantised_scale_words(q, first), scale_words), scales);
        }
        free(scales);
        free(codes);
    }
    if (p->coded)
        return;
    if (bucket_has_values(p))
        bucket_write(p, first, count, values);
    else
        tensor_write(device, tensor_elements(p->kept[0].data ? p->kept[0] : p->value, first, count), values);
}

void weights_prefetch_one(struct model *model, struct parameter *p)
{
    for (size_t part = 0; part < PARAMETER_PARTS && p->kept[part].place == PLACE_HOST; part++)
        p->fetched[part] = tensor_copy_in(model->device, p->kept[part]);
}

void weights_acquire_one(struct model *model, struct parameter *p)
{
    struct tensor value = p->value, *stored = p->kept[0].place == PLACE_HOST ? p->fetched : p->kept;
    if (p->coded) {
        p->value = tensor_new(model->device, value.rows, value.cols, value.dtype, value.category);
        op_dequantise(model->device, p->value, p->quantisation, stored[0], stored[1]);
        tensor_free(model->device, &p->fetched[0]);
        tensor_free(model->device, &p->fetched[1]);
    } else if (stored[0].data) {
        p->value = stored[0];
        p->fetched[0] = tensor_none();
    }
}

void weights_offload_one(struct model *model, struct parameter *p)
{
    if (p->kept[0].place == PLACE_HOST && !p->coded)
        copy_out(model->device, p->kept[0], p->value);
}

void weights_release_one(struct model *model, struct parameter *p)
{
    if (p->kept[0].data) {
        struct tensor value = p->value;
        tensor_free(model->device, &value);
        value_none(model, p);
    }
}

void weights_prefetch(struct weights *weights, size_t unit)
{
    struct model *model = weights->model;
    struct fetch *fetch = &weights->fetches[unit];
    bucket_prefetch(weights->buckets, unit);
    if (weights->place != PLACE_HOST || fetch->prefetched)
        return;
    fetch->prefetched = true;
    FOR_PARAMETERS (p, model, unit)
        weights_prefetch_one(model, p);
    fetch->in = event_record(model->device, QUEUE_IN);
}

void weights_settle(struct weights *weights)
{
    struct model *model = weights->model;
    for (size_t unit = 0; unit < unit_count(model); unit++) {
        event_wait(model->device, QUEUE_COMPUTE, weights->fetches[unit].in);
        FOR_PARAMETERS (p, model, unit) {
            tensor_free(model->device, &p->fetched[0]);
            tensor_free(model->device, &p->fetched[1]);
        }
        weights->fetches[unit] = (struct fetch){0};
        bucket_settle(weights->buckets, unit);
    }
}

void weights_acquire(struct weights *weights, size_t unit)
{
    struct model *model = weights->model;
    struct parameters parameters = unit_parameters(model, unit);
    size_t changing = weights_stay(weights) ? 0 : parameters.count;
    weights_prefetch(weights, unit);
    event_wait(model->device, QUEUE_COMPUTE, weights->fetches[unit].in);
    bucket_acquire(weights->buckets, unit);
    for (size_t i = 0; i < changing; i++)
        weights_acquire_one(model, &parameters.items[i]);
    weights->fetches[unit] = (struct fetch){0};
}

void weights_release(struct weights *weights, size_t unit)
{
    struct parameters parameters = unit_parameters(weights->model, unit);
    size_t changing = weights_stay(weights) ? 0 : parameters.count;
    for (size_t i = 0; i < changing; i++)
        weights_release_one(weights->model, &parameters.items[i]);
    bucket_release(weights->buckets, unit);
}
