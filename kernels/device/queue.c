#include "kernels/device/queue.h"

static void transfer(struct device *device, enum queue queue, struct tensor dst, struct tensor src)
{
    const struct roofline *roof = &device->roofline;
    double bytes = (double)tensor_bytes(src);
    CHECK(dst.dtype == src.dtype && tensor_count(dst) == tensor_count(src));
    device->counters.link_bytes[queue] += bytes;
    if (roof->bytes_per_s > 0 && bytes > 0)
        device->counters.clock_s[queue] += bytes / roof->link_bytes_per_s + roof->launch_s;
    if (!device->ops->dataless)
        device->ops->transfer(device, queue, dst, src);
}

void copy_out(struct device *device, struct tensor host, struct tensor t)
{
    if (device->status.code == STATUS_OK) {
        CHECK(host.place == PLACE_HOST && t.place == PLACE_DEVICE);
        transfer(device, QUEUE_OUT, host, t);
    }
}

void copy_in(struct device *device, struct tensor t, struct tensor host)
{
    if (device->status.code == STATUS_OK) {
        CHECK(host.place == PLACE_HOST && t.place == PLACE_DEVICE);
        transfer(device, QUEUE_IN, t, host);
    }
}

struct event event_record(struct device *device, enum queue queue)
{
    struct event event = {++device->recorded[queue], queue, device->counters.clock_s[queue]};
    if (!device->ops->dataless && device->ops->record)
        device->ops->record(device, event);
    return event;
}

void event_wait(struct device *device, enum queue queue, struct event event)
{
    if (event.serial == 0 || event.queue == queue)
        return;
    double *clock_s = &device->counters.clock_s[queue];
    *clock_s = event.clock_s > *clock_s ? event.clock_s : *clock_s;
    if (!device->ops->dataless && device->ops->wait)
        device->ops->wait(device, queue, event);
}

struct event copy_out_written(struct device *device, struct tensor host, struct tensor t)
{
    event_wait(device, QUEUE_OUT, event_record(device, QUEUE_COMPUTE));
    copy_out(device, host, t);
    return event_record(device, QUEUE_OUT);
}
