#include "kernels/offload/offload.h"
#include "kernels/device/ops.h"

void offload_open(struct offload *offload, struct device *device, enum place place, size_t count)
{
    *offload = (struct offload){device, place, calloc(count + 1, sizeof(struct offloaded_tensor)), count};
}

static struct offloaded_tensor *item_of(struct offload *offload, size_t i)
{
    CHECK(i < offload->count);
    return &offload->items[i];
}

void offload_put(struct offload *offload, size_t i, struct tensor t)
{
    struct device *device = offload->device;
    struct offloaded_tensor *item = item_of(offload, i);
    *item = (struct offloaded_tensor){.staged = t};
    if (offload->place == PLACE_HOST) {
        item->host = tensor_new_in(device, PLACE_HOST, t.rows, t.cols, t.dtype, t.category);
        item->out = copy_out_written(device, item->host, t);
    }
}

void offload_hold(struct offload *offload, size_t i, struct tensor t)
{
    *item_of(offload, i) = (struct offloaded_tensor){.staged = t};
}

bool offload_has(const struct offload *offload, size_t i)
{
    CHECK(i < offload->count);
    return offload->items[i].staged.data || offload->items[i].host.data;
}

void offload_release(struct offload *offload, size_t i)
{
    struct offloaded_tensor *item = item_of(offload, i);
    if (offload->place == PLACE_HOST) {
        event_wait(offload->device, QUEUE_COMPUTE, item->out);
        tensor_free(offload->device, &item->staged);
    }
}

void offload_prefetch(struct offload *offload, size_t i)
{
    struct device *device = offload->device;
    struct offloaded_tensor *item = item_of(offload, i);
    if (offload->place == PLACE_HOST) {
        item->staged = tensor_copy_in(device, item->host);
        item->in = event_record(device, QUEUE_IN);
    }
}

struct tensor offload_acquire(struct offload *offload, size_t i)
{
    struct offloaded_tensor *item = item_of(offload, i);
    event_wait(offload->device, QUEUE_COMPUTE, item->in);
    return item->staged;
}

void offload_free(struct offload *offload, size_t i)
{
    struct offloaded_tensor *item = item_of(offload, i);
    tensor_free(offload->device, &item->staged);
    tensor_free(offload->device, &item->host);
    *item = (struct offloaded_tensor){0};
}

void offload_close(struct offload *offload)
{
    free(offload->items);
    *offload = (struct offload){0};
}
