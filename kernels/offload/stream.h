// Stream: a tensor that a walk reads part by part, and may write back. On the device a part is a view. What lies on
// the host comes through two buffers, the next part while one is used; what is made again is made in one.
#pragma once
#include "kernels/offload/double_buffer.h"

struct stream {
    struct device *device;
    struct tensor whole; // where it lies; one that is made again: its shape, without data
    bool read_only;      // nobody reads what would be offloaded
    // NULL: it is not made again. Writes the rows from `row` on.
    void (*make)(void *maker, struct tensor part, size_t row);
    void *maker;
    // Of the last part that was offloaded, by this stream or by one before it of the same tensor.
    struct event out;
    // Between open and close:
    struct double_buffer buffers;
    struct tensor parts[2]; // [buffers]
    struct {
        size_t row, rows;
    } spans[2];
};

// In parts of at most so many rows.
void stream_open(struct stream *stream, size_t rows);
// Rows [row, row + rows) are acquired next, while the part before them, which has been acquired, is used; nothing
// is read of the one before that any more.
void stream_prefetch(struct stream *stream, size_t row, size_t rows);
// The part prefetched first of those not yet acquired. It can be changed.
struct tensor stream_acquire(struct stream *stream);
// The part acquired last goes back.
void stream_offload(struct stream *stream);
void stream_close(struct stream *stream);
