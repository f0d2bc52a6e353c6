#include "kernels/offload/spill.h"
#include "kernels/device/ops.h"

void spill_open(struct spill *spill, struct device *device, enum place place, size_t count)
{
    *spill = (struct spill){device, place, calloc(count + 1, sizeof(struct spilled)), count};
    CHECK(spill->items);
}

static struct spilled *item_of(struct spill *spill, size_t i)
{
    CHECK(i < spill->count);
    return &spill->items[i];
}

void spill_offload(struct spill *spill, size_t i, struct tensor t)
{
    struct device *device = spill->device;
    struct spilled *item = item_of(spill, i);
    *item = (struct spilled){.near = t};
    if (spill->place == PLACE_HOST) {
        item->far = tensor_new_in(device, PLACE_HOST, t.rows, t.cols, t.dtype, t.category);
        item->out = copy_out_written(device, item->far, t);
    }
}

void spill_hold(struct spill *spill, size_t i, struct tensor t)
{
    *item_of(spill, i) = (struct spilled){.near = t};
}

bool spill_has(const struct spill *spill, size_t i)
{
    CHECK(i < spill->count);
    return spill->items[i].near.data || spill->items[i].far.data;
}

void spill_release(struct spill *spill, size_t i)
{
    struct spilled *item = item_of(spill, i);
    if (spill->place == PLACE_HOST) {
        event_wait(spill->device, QUEUE_COMPUTE, item->out);
        tensor_free(spill->device, &item->near);
    }
}

void spill_prefetch(struct spill *spill, size_t i)
{
    struct device *device = spill->device;
    struct spilled *item = item_of(spill, i);
    if (spill->place == PLACE_HOST) {
        item->near = tensor_copy_in(device, item->far);
        item->in = event_record(device, QUEUE_IN);
    }
}

struct tensor spill_acquire(struct spill *spill, size_t i)
{
    struct spilled *item = item_of(spill, i);
    event_wait(spill->device, QUEUE_COMPUTE, item->in);
    return item->near;
}

void spill_free(struct spill *spill, size_t i)
{
    struct spilled *item = item_of(spill, i);
    tensor_free(spill->device, &item->near);
    tensor_free(spill->device, &item->far);
    *item = (struct spilled){0};
}

void spill_close(struct spill *spill)
{
    free(spill->items);
    *spill = (struct spill){0};
}
