// Embedding: rows of a table by token id, and its gradient.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void NAME(embedding_forward)(struct device *device, struct tensor y, struct tensor table, struct tensor ids)
{
    const int32_t *id = ids.data;
    size_t d = table.cols;
#pragma omp parallel for schedule(static) if (y.rows * d > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < y.rows; r++)
        memcpy((stored *)y.data + r * d, (const stored *)table.data + id[r] * d, d * sizeof(stored));
}

// Rows that a bf16 accumulator takes at once, 512 KiB of stack: rows of one id are summed, then rounded once.
enum { SLICE = 65536 };

static int by_id(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void add_slice(struct accumulator out, size_t d, const stored *grad, const int32_t *id, size_t rows,
                      int32_t padding)
{
    uint64_t order[SLICE]; // the id, then the row
    CHECK(rows > 0 && rows <= SLICE);
    size_t count = 0;
    for (size_t r = 0; r < rows; r++)
        if (id[r] != padding)
            order[count++] = (uint64_t)id[r] << 32 | r;
    rows = count;
    qsort(order, rows, sizeof *order, by_id);
#pragma omp parallel for schedule(static) if (rows * d > PARALLEL_ELEMENTS)
    for (size_t first = 0; first < d; first += STRIP) {
        size_t width = d - first < STRIP ? d - first : STRIP;
        for (size_t r = 0; r < rows;) {
            size_t at = (size_t)(order[r] >> 32) * d + first;
            real sums[STRIP];
            for (size_t j = 0; j < width; j++)
                sums[j] = accumulator_get(out, at + j);
            for (uint64_t row = order[r] >> 32; r < rows && order[r] >> 32 == row; r++)
                for (size_t j = 0; j < width; j++)
                    sums[j] += load(grad[(uint32_t)order[r] * d + first + j]);
            for (size_t j = 0; j < width; j++)
                accumulator_set(out, at + j, sums[j]);
        }
    }
}

// Rows may share an id, so each thread processes a strip of columns with all rows in order.
void NAME(embedding_backward)(struct device *device, struct tensor grad_table, struct tensor grad_y,
                              struct tensor ids, int32_t padding)
{
    const int32_t *id = ids.data;
    const stored *grad = grad_y.data;
    struct accumulator out = accumulator_of(grad_table);
    size_t d = grad_table.cols;
    if (sizeof(real) != sizeof(stored) && out.narrow) {
        for (size_t first = 0; first < grad_y.rows; first += SLICE)
            add_slice(out, d, grad + first * d, id + first,
                      grad_y.rows - first < SLICE ? grad_y.rows - first : SLICE, padding);
        return;
    }
#pragma omp parallel for schedule(static) if (grad_y.rows * d > PARALLEL_ELEMENTS)
    for (size_t first = 0; first < d; first += STRIP) {
        size_t last = first + STRIP < d ? first + STRIP : d;
        for (size_t r = 0; r < grad_y.rows; r++) {
            if (id[r] == padding)
                continue;
#pragma omp simd
            for (size_t j = first; j < last; j++)
                accumulator_set(out, id[r] * d + j, accumulator_get(out, id[r] * d + j) + load(grad[r * d + j]));
        }
    }
}
