// Tensor: a contiguous matrix in a place. The first dimension is always time, so a chunk of the context is a range
// of rows: a view, never a copy.
#pragma once
#include "kernels/base/dtype.h"
#include "kernels/device/arena.h"

struct tensor {
    void *data; // NULL: no tensor. On the plan device an address that is never read.
    enum dtype dtype;
    enum category category;
    size_t rows, cols;
    enum place place;
};

static inline struct tensor tensor_none(void)
{
    return (struct tensor){0};
}
static inline size_t tensor_count(struct tensor t)
{
    return t.rows * t.cols;
}
static inline size_t tensor_bytes(struct tensor t)
{
    return t.rows * t.cols * dtype_bytes(t.dtype);
}
// Rows [start, start + count) of t, sharing its data. A view of no tensor is no tensor with that many rows.
struct tensor tensor_rows(struct tensor t, size_t start, size_t count);
// The same data as [rows, cols]; the number of elements must not change.
struct tensor tensor_reshape(struct tensor t, size_t rows, size_t cols);
// Elements [first, first + count), as one column.
struct tensor tensor_elements(struct tensor t, size_t first, size_t count);
