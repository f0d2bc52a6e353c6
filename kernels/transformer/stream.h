// Stream: a tensor that a walk reads part by part, and may write back. On the device a part is a view. What lies on
// the host comes through two slots, the next part while one is used; what is made again is made in one.
#pragma once
#include "kernels/base/queue.h"

struct stream {
    struct device *device;
    struct tensor whole; // where it lies; one that is made again: its shape, without data
    bool read_only;      // nobody reads what would be put back
    // NULL: it is not made again. Writes the rows from `row` on.
    void (*make)(void *maker, struct tensor part, size_t row);
    void *maker;
    // Between open and close:
    struct tensor slots[2];
    struct {
        size_t row, rows;
    } parts[2];
    struct event in[2], out; // of the slots; of the last part that was put back
    size_t wanted, got;
};

// In parts of at most so many rows.
void stream_open(struct stream *stream, size_t rows);
// Rows [row, row + rows) are wanted, while the part before them, which has been got, is used; nothing is read of
// the one before that any more.
void stream_want(struct stream *stream, size_t row, size_t rows);
// The part wanted first of those not yet got. It can be changed.
struct tensor stream_get(struct stream *stream);
// The part got last goes back.
void stream_put(struct stream *stream);
void stream_close(struct stream *stream);
// t, on the device and written, to as many rows on the host, beside what follows. Whoever overwrites or releases t
// must wait for the event.
struct event stream_out(struct device *device, struct tensor host, struct tensor t);
