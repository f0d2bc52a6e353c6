// Every wait here is needed, and no other is: a copy in waits for the operations that read its slot before, and for
// the last part put back, which had its slot, or may be what it reads; what reads a part waits for its copy in; a
// copy out waits for what writes the part; the slots are released when the operations have waited for the last.
#include "kernels/transformer/stream.h"
#include "kernels/base/ops.h"

static bool is_far(const struct stream *stream)
{
    return stream->whole.place == PLACE_HOST;
}

void stream_open(struct stream *stream, size_t rows)
{
    struct tensor whole = stream->whole;
    size_t count = is_far(stream) ? 2 : stream->make ? 1 : 0;
    CHECK(rows > 0);
    rows = rows < whole.rows ? rows : whole.rows;
    stream->wanted = stream->got = 0;
    for (size_t i = 0; i < count; i++) {
        stream->slots[i] = tensor_new(stream->device, rows, whole.cols, whole.dtype, whole.category);
    }
}

void stream_want(struct stream *stream, size_t row, size_t rows)
{
    struct device *device = stream->device;
    size_t i = stream->wanted++ % 2;
    CHECK(stream->wanted - stream->got <= 2);
    stream->parts[i].row = row;
    stream->parts[i].rows = rows;
    if (is_far(stream)) {
        event_wait(device, QUEUE_IN, event_record(device, QUEUE_COMPUTE));
        event_wait(device, QUEUE_IN, stream->out);
        copy_in(device, tensor_rows(stream->slots[i], 0, rows), tensor_rows(stream->whole, row, rows));
        stream->in[i] = event_record(device, QUEUE_IN);
    }
}

static struct tensor part_of(const struct stream *stream, size_t i)
{
    size_t row = stream->parts[i].row, rows = stream->parts[i].rows;
    if (is_far(stream)) {
        return tensor_rows(stream->slots[i], 0, rows);
    }
    return stream->make ? tensor_rows(stream->slots[0], 0, rows) : tensor_rows(stream->whole, row, rows);
}

struct tensor stream_get(struct stream *stream)
{
    size_t i = stream->got++ % 2;
    CHECK(stream->got <= stream->wanted);
    struct tensor part = part_of(stream, i);
    event_wait(stream->device, QUEUE_COMPUTE, stream->in[i]);
    if (stream->make) {
        stream->make(stream->maker, part, stream->parts[i].row);
    }
    return part;
}

void stream_put(struct stream *stream)
{
    size_t i = (stream->got + 1) % 2;
    if (is_far(stream) && !stream->read_only) {
        struct tensor rows = tensor_rows(stream->whole, stream->parts[i].row, stream->parts[i].rows);
        stream->out = stream_out(stream->device, rows, part_of(stream, i));
    }
}

void stream_close(struct stream *stream)
{
    event_wait(stream->device, QUEUE_COMPUTE, stream->out);
    for (size_t i = 0; i < 2; i++) {
        tensor_free(stream->device, &stream->slots[i]);
        stream->in[i] = (struct event){0};
    }
}

struct event stream_out(struct device *device, struct tensor host, struct tensor t)
{
    event_wait(device, QUEUE_OUT, event_record(device, QUEUE_COMPUTE));
    copy_out(device, host, t);
    return event_record(device, QUEUE_OUT);
}
