#include "kernels/offload/stream.h"
#include "kernels/device/ops.h"

void stream_open(struct stream *stream, size_t rows)
{
    struct tensor whole = stream->whole;
    bool offloaded = whole.place == PLACE_HOST;
    size_t count = offloaded ? 2 : stream->make ? 1 : 0;
    CHECK(rows > 0 || whole.rows == 0);
    rows = rows < whole.rows ? rows : whole.rows;
    stream->buffers =
        (struct double_buffer){.device = stream->device, .copies = offloaded, .count = 2, .out = stream->out};
    for (size_t i = 0; i < count; i++)
        stream->parts[i] = tensor_new(stream->device, rows, whole.cols, whole.dtype, whole.category);
}

void stream_prefetch(struct stream *stream, size_t row, size_t rows)
{
    size_t i = double_buffer_prefetch_begin(&stream->buffers);
    stream->spans[i].row = row;
    stream->spans[i].rows = rows;
    if (stream->buffers.copies)
        copy_in(stream->device, tensor_rows(stream->parts[i], 0, rows), tensor_rows(stream->whole, row, rows));
    double_buffer_prefetch_end(&stream->buffers);
}

static struct tensor part_of(const struct stream *stream, size_t i)
{
    size_t row = stream->spans[i].row, rows = stream->spans[i].rows;
    if (stream->buffers.copies)
        return tensor_rows(stream->parts[i], 0, rows);
    return stream->make ? tensor_rows(stream->parts[0], 0, rows) : tensor_rows(stream->whole, row, rows);
}

struct tensor stream_acquire(struct stream *stream)
{
    size_t i = double_buffer_acquire(&stream->buffers);
    struct tensor part = part_of(stream, i);
    if (stream->make)
        stream->make(stream->maker, part, stream->spans[i].row);
    return part;
}

void stream_offload(struct stream *stream)
{
    size_t i = double_buffer_current(&stream->buffers);
    if (stream->buffers.copies && !stream->read_only) {
        struct tensor rows = tensor_rows(stream->whole, stream->spans[i].row, stream->spans[i].rows);
        double_buffer_offload(&stream->buffers, rows, part_of(stream, i));
        stream->out = stream->buffers.out;
    }
}

void stream_close(struct stream *stream)
{
    double_buffer_close(&stream->buffers);
    for (size_t i = 0; i < 2; i++)
        tensor_free(stream->device, &stream->parts[i]);
}
