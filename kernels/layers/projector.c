#include "kernels/layers/projector.h"
#include "kernels/device/eigen.h"
#include "kernels/offload/host_work.h"

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool projector_on_right(size_t rows, size_t cols)
{
    return rows >= cols;
}

static size_t rank_of(size_t rows, size_t cols, size_t rank)
{
    return smaller(rank, smaller(rows, cols));
}

struct tensor projector_shape(size_t rows, size_t cols, size_t rank)
{
    size_t r = rank_of(rows, cols, rank);
    bool right = projector_on_right(rows, cols);
    return (struct tensor){.rows = right ? r : rows, .cols = right ? cols : r};
}

struct tensor projected_shape(size_t rows, size_t cols, size_t rank)
{
    size_t r = rank_of(rows, cols, rank);
    bool right = projector_on_right(rows, cols);
    return (struct tensor){.rows = right ? rows : r, .cols = right ? r : cols};
}

size_t projector_rank(struct tensor p, size_t rows, size_t cols)
{
    return projector_on_right(rows, cols) ? p.rows : p.cols;
}

void projector_find(struct device *device, struct tensor p, struct tensor g)
{
    bool transposed = !projector_on_right(g.rows, g.cols);
    size_t rank = projector_rank(p, g.rows, g.cols);
    struct tensor host = host_work_read(device, g), found = host_work_new(device, p.rows, p.cols, p.dtype);
    struct tensor scratch = host_work_new(device, eigen_scratch(g.rows, g.cols, rank), 1, DTYPE_F64);
    if (host_work_wanted(device) && eigen_leading(host, rank, transposed, scratch.data, &device->status))
        tensor_write(device, found, scratch.data);
    tensor_free(device, &scratch);
    tensor_free(device, &host);
    host_work_write(device, p, &found);
}

void projector_project(struct device *device, struct tensor r, struct tensor p, struct tensor g)
{
    bool converts = g.dtype != p.dtype;
    size_t max = smaller(g.rows, device->ops->rules->block_rows(device, g.cols));
    for (size_t row = 0; row < g.rows && device->status.code == STATUS_OK; row += max) {
        size_t count = smaller(max, g.rows - row);
        struct tensor of_block = tensor_rows(g, row, count), block = of_block;
        if (converts) {
            block = tensor_new(device, count, g.cols, p.dtype, CATEGORY_WORKSPACE);
            op_copy(device, block, of_block);
        }
        if (projector_on_right(g.rows, g.cols))
            op_gemm(device, tensor_rows(r, row, count), block, NO_TRANSPOSE, p, TRANSPOSE, 1, 0);
        else
            op_gemm(device, r, tensor_rows(p, row, count), TRANSPOSE, block, NO_TRANSPOSE, 1, row > 0);
        if (converts)
            tensor_free(device, &block);
    }
}

void projector_add(struct device *device, struct tensor r, struct tensor p, struct tensor grad_y, struct tensor x,
                   double alpha)
{
    bool right = projector_on_right(grad_y.cols, x.cols);
    size_t rank = projector_rank(p, grad_y.cols, x.cols);
    struct tensor narrow = tensor_new(device, x.rows, rank, x.dtype, CATEGORY_WORKSPACE);
    op_gemm(device, narrow, right ? x : grad_y, NO_TRANSPOSE, p, right ? TRANSPOSE : NO_TRANSPOSE, 1, 0);
    op_gemm(device, r, right ? grad_y : narrow, TRANSPOSE, right ? narrow : x, NO_TRANSPOSE, alpha, 1);
    tensor_free(device, &narrow);
}

void projector_back(struct device *device, struct tensor grad, struct tensor p, struct tensor n, size_t rows,
                    size_t first, double alpha)
{
    bool right = projector_on_right(rows, grad.cols);
    struct tensor tall = tensor_rows(right ? n : p, first, grad.rows);
    op_gemm(device, grad, tall, NO_TRANSPOSE, right ? p : n, NO_TRANSPOSE, alpha, 0);
}
