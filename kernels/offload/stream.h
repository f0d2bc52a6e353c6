// Stream: a tensor that a schedule reads part by part and may write back. On the device a part is a view. A tensor
// on the host uses two buffers, prefetching the next part; a recomputed one uses one.
#pragma once
#include "kernels/offload/double_buffer.h"

struct stream {
    struct device *device;
    struct tensor whole; // the tensor; if it is recomputed, its shape without data
    bool read_only;      // offloads would not be read
    // Recomputes rows from `row` on. NULL: stored.
    void (*make)(void *maker, struct tensor part, size_t row);
    void *maker;
    // Event of the latest offloaded part, by this or an earlier stream of the tensor.
    struct event out;
    // Between open and close:
    struct double_buffer buffers;
    struct tensor parts[2]; // [buffers]
    struct {
        size_t row, rows;
    } spans[2];
};

// Opens it for parts of at most `rows` rows.
void stream_open(struct stream *stream, size_t rows);
// Announces rows [row, row + rows) as the next part, while the acquired part is in use; the part before that is no
// longer read.
void stream_prefetch(struct stream *stream, size_t row, size_t rows);
// The oldest prefetched part. It may be changed.
struct tensor stream_acquire(struct stream *stream);
// Writes back the part acquired last.
void stream_offload(struct stream *stream);
void stream_close(struct stream *stream);
