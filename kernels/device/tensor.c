#include "kernels/device/tensor.h"

struct tensor tensor_rows(struct tensor t, size_t start, size_t count)
{
    if (t.data) {
        CHECK(start <= t.rows && count <= t.rows - start);
        t.data = (char *)t.data + start * t.cols * dtype_bytes(t.dtype);
    }
    t.rows = count;
    return t;
}

struct tensor tensor_reshape(struct tensor t, size_t rows, size_t cols)
{
    CHECK(!t.data || rows * cols == t.rows * t.cols);
    t.rows = rows;
    t.cols = cols;
    return t;
}

struct tensor tensor_elements(struct tensor t, size_t first, size_t count)
{
    return tensor_rows(tensor_reshape(t, tensor_count(t), 1), first, count);
}
