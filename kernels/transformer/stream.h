// Stream: a tensor that a walk reads part by part, and may write back. On the device a part is a view. What lies on
// the host comes through two slots, the next part while one is used; what is made again is made in one.
#pragma once
#include "kernels/transformer/slots.h"

struct stream {
    struct device *device;
    struct tensor whole; // where it lies; one that is made again: its shape, without data
    bool read_only;      // nobody reads what would be put back
    // NULL: it is not made again. Writes the rows from `row` on.
    void (*make)(void *maker, struct tensor part, size_t row);
    void *maker;
    // Of the last part that was put back, by this stream or by one before it of the same tensor.
    struct event out;
    // Between open and close:
    struct slots slots;
    struct tensor parts[2]; // [slots]
    struct {
        size_t row, rows;
    } spans[2];
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
