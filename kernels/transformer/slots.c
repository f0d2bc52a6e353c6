#include "kernels/transformer/slots.h"
#include "kernels/base/ops.h"

size_t slots_want(struct slots *slots)
{
    struct device *device = slots->device;
    CHECK(slots->wanted - slots->got < slots->count);
    if (slots->far) {
        event_wait(device, QUEUE_IN, event_record(device, QUEUE_COMPUTE));
        event_wait(device, QUEUE_IN, slots->out);
    }
    return slots->wanted++ % slots->count;
}

void slots_asked(struct slots *slots)
{
    if (slots->far) {
        slots->in[(slots->wanted - 1) % slots->count] = event_record(slots->device, QUEUE_IN);
    }
}

size_t slots_get(struct slots *slots)
{
    CHECK(slots->got < slots->wanted);
    event_wait(slots->device, QUEUE_COMPUTE, slots->in[slots->got++ % slots->count]);
    return slots_current(slots);
}

size_t slots_current(const struct slots *slots)
{
    return (slots->got + slots->count - 1) % slots->count;
}

void slots_put(struct slots *slots, struct tensor host, struct tensor t)
{
    slots->out = copy_out_written(slots->device, host, t);
}

void slots_close(struct slots *slots)
{
    event_wait(slots->device, QUEUE_COMPUTE, slots->out);
    slots->in[0] = slots->in[1] = (struct event){0};
    slots->wanted = slots->got = 0;
}
