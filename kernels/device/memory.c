// Memory: allocation of tensors, and transfer of values between host and device.
#include "kernels/device/front.h"
#include "kernels/device/ops.h"
#include "kernels/device/queue.h"
#include <string.h>

#define CONVERTED_ALONE 65536 // elements that one thread converts during transfers

struct tensor tensor_new(struct device *device, size_t rows, size_t cols, enum dtype dtype, enum category category)
{
    return tensor_new_in(device, PLACE_DEVICE, rows, cols, dtype, category);
}

struct tensor tensor_new_in(struct device *device, enum place place, size_t rows, size_t cols, enum dtype dtype,
                            enum category category)
{
    struct tensor t = {.dtype = dtype, .category = category, .rows = rows, .cols = cols, .place = place};
    size_t elements, size;
    if (device->status.code != STATUS_OK)
        return t;
    if (__builtin_mul_overflow(rows, cols, &elements) ||
        __builtin_mul_overflow(elements, dtype_bytes(dtype), &size)) {
        status_set(&device->status, STATUS_OOM, "%zu x %zu elements for %s are more than can be addressed", rows,
                   cols, category_name(category));
        return t;
    }
    t.data = arena_allocate(device_arena(device, place), size, category, device->counters.flops, &device->status);
    return t;
}

struct tensor tensor_copy_in(struct device *device, struct tensor host)
{
    struct tensor t = tensor_new(device, host.rows, host.cols, host.dtype, host.category);
    event_wait(device, QUEUE_IN, event_record(device, QUEUE_COMPUTE));
    copy_in(device, t, host);
    return t;
}

void tensor_free(struct device *device, struct tensor *t)
{
    if (t->data) {
        arena_release(device_arena(device, t->place), t->data, tensor_bytes(*t), t->category,
                      device->counters.flops);
    }
    *t = (struct tensor){0};
}

void tensor_write(struct device *device, struct tensor t, const double *values)
{
    if (!holds_data(device))
        return;
    size_t n = tensor_count(t);
    void *host = malloc(tensor_bytes(t) + 1);
#pragma omp parallel for schedule(static) if (n > CONVERTED_ALONE)
    for (size_t i = 0; i < n; i++) {
        switch (t.dtype) {
        case DTYPE_F64:
            ((double *)host)[i] = values[i];
            break;
        case DTYPE_F32:
            ((float *)host)[i] = (float)values[i];
            break;
        case DTYPE_BF16:
            ((uint16_t *)host)[i] = dtype_bf16((float)values[i]);
            break;
        case DTYPE_I32:
            ((int32_t *)host)[i] = (int32_t)values[i];
            break;
        default:
            CHECK(!"a dtype that devices hold");
        }
    }
    op_upload(device, t, host);
    free(host);
}

void tensor_read(struct device *device, struct tensor t, double *values)
{
    if (!holds_data(device))
        return;
    size_t n = tensor_count(t);
    void *host = malloc(tensor_bytes(t) + 1);
    op_download(device, host, t);
#pragma omp parallel for schedule(static) if (n > CONVERTED_ALONE)
    for (size_t i = 0; i < n; i++)
        values[i] = dtype_value(host, t.dtype, i);
    free(host);
}

// Tells whether the tensor is in host memory and no copy of it is in transit.
static bool on_host(struct device *device, struct tensor t)
{
    if (t.place == PLACE_HOST && device->ops->synchronize)
        device->ops->synchronize(device);
    return t.place == PLACE_HOST || !device->ops->upload;
}

// Uploads and downloads are set-up or reading of results, not part of a step's cost.
void op_upload(struct device *device, struct tensor t, const void *src)
{
    if (holds_data(device) && on_host(device, t))
        memcpy(t.data, src, tensor_bytes(t));
    else if (holds_data(device))
        device->ops->upload(device, t, src);
}

void op_download(struct device *device, void *dst, struct tensor t)
{
    if (holds_data(device) && on_host(device, t))
        memcpy(dst, t.data, tensor_bytes(t));
    else if (holds_data(device))
        device->ops->download(device, dst, t);
}
