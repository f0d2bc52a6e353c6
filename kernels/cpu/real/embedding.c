// Embedding: rows of a table by token id, and its gradient.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"
#include <stdint.h>
#include <string.h>

void NAME(embedding_forward)(struct device *device, struct tensor y, struct tensor table, struct tensor ids)
{
    (void)device;
    const int32_t *id = ids.data;
    size_t d = table.cols;
#pragma omp parallel for schedule(static) if (y.rows * d > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < y.rows; r++) {
        memcpy((real *)y.data + r * d, (const real *)table.data + id[r] * d, d * sizeof(real));
    }
}

// Two rows may share an id, so a thread takes a strip of columns and walks the rows in order.
void NAME(embedding_backward)(struct device *device, struct tensor grad_table, struct tensor grad_y,
                              struct tensor ids)
{
    (void)device;
    const int32_t *id = ids.data;
    const real *grad = grad_y.data;
    real *out = grad_table.data;
    size_t d = grad_table.cols;
#pragma omp parallel for schedule(static) if (grad_y.rows * d > PARALLEL_ELEMENTS)
    for (size_t first = 0; first < d; first += STRIP) {
        size_t last = first + STRIP < d ? first + STRIP : d;
        for (size_t r = 0; r < grad_y.rows; r++) {
#pragma omp simd
            for (size_t j = first; j < last; j++) {
                out[id[r] * d + j] += grad[r * d + j];
            }
        }
    }
}
