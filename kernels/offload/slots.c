#include "kernels/offload/slots.h"
#include "kernels/device/ops.h"

size_t slots_prefetch_begin(struct slots *slots)
{
    struct device *device = slots->device;
    CHECK(slots->prefetched - slots->acquired < slots->count);
    if (slots->far) {
        event_wait(device, QUEUE_IN, event_record(device, QUEUE_COMPUTE));
        event_wait(device, QUEUE_IN, slots->out);
    }
    return slots->prefetched++ % slots->count;
}

void slots_prefetch_end(struct slots *slots)
{
    if (slots->far) {
        slots->in[(slots->prefetched - 1) % slots->count] = event_record(slots->device, QUEUE_IN);
    }
}

bool slots_are_ahead(const struct slots *slots)
{
    return slots->prefetched > slots->acquired;
}

size_t slots_acquire(struct slots *slots)
{
    CHECK(slots_are_ahead(slots));
    event_wait(slots->device, QUEUE_COMPUTE, slots->in[slots->acquired++ % slots->count]);
    return slots_current(slots);
}

size_t slots_current(const struct slots *slots)
{
    return (slots->acquired + slots->count - 1) % slots->count;
}

void slots_offload(struct slots *slots, struct tensor host, struct tensor t)
{
    slots->out = copy_out_written(slots->device, host, t);
}

void slots_close(struct slots *slots)
{
    event_wait(slots->device, QUEUE_COMPUTE, slots->out);
    slots->in[0] = slots->in[1] = (struct event){0};
    slots->prefetched = slots->acquired = 0;
}
