#include "kernels/offload/double_buffer.h"
#include "kernels/device/ops.h"

size_t double_buffer_prefetch_begin(struct double_buffer *buffers)
{
    struct device *device = buffers->device;
    CHECK(buffers->prefetched - buffers->acquired < buffers->count);
    if (buffers->copies) {
        event_wait(device, QUEUE_IN, event_record(device, QUEUE_COMPUTE));
        event_wait(device, QUEUE_IN, buffers->out);
    }
    return buffers->prefetched++ % buffers->count;
}

void double_buffer_prefetch_end(struct double_buffer *buffers)
{
    if (buffers->copies)
        buffers->in[(buffers->prefetched - 1) % buffers->count] = event_record(buffers->device, QUEUE_IN);
}

bool double_buffer_is_ahead(const struct double_buffer *buffers)
{
    return buffers->prefetched > buffers->acquired;
}

size_t double_buffer_acquire(struct double_buffer *buffers)
{
    CHECK(double_buffer_is_ahead(buffers));
    event_wait(buffers->device, QUEUE_COMPUTE, buffers->in[buffers->acquired++ % buffers->count]);
    return double_buffer_current(buffers);
}

size_t double_buffer_current(const struct double_buffer *buffers)
{
    return (buffers->acquired + buffers->count - 1) % buffers->count;
}

void double_buffer_offload(struct double_buffer *buffers, struct tensor host, struct tensor t)
{
    buffers->out = copy_out_written(buffers->device, host, t);
}

void double_buffer_close(struct double_buffer *buffers)
{
    event_wait(buffers->device, QUEUE_COMPUTE, buffers->out);
    buffers->in[0] = buffers->in[1] = (struct event){0};
    buffers->prefetched = buffers->acquired = 0;
}
