// Cross-entropy on a block of logits, and its gradient in place.
//   loss += loss_weight * sum over rows with a target of (logsumexp - logits[target]), the rows in order, in f64
//   logits = grad_weight * (softmax - onehot(target)); 0 for rows without a target
// With a cap both are of the capped logits, which are computed where the logits are read.
#include "kernels/cpu/real/cap.h"
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"
#include <stdint.h>
#include <string.h>

// Rows whose losses are buffered for the ordered sum.
#define ROWS 256

// Replaces one row of logits by its gradient; returns its loss. In bf16 exponentials are computed twice, because
// storing them in the row would round them; with a cap, because the row has to keep its logits.
__attribute__((always_inline)) static inline double row_gradient(stored *row, size_t vocab, int32_t target,
                                                                 real grad_weight, real cap)
{
    const bool keep = sizeof(stored) == sizeof(real) && cap == 0;
    real largest = -REAL_INFINITY;
#pragma omp simd reduction(max : largest)
    for (size_t j = 0; j < vocab; j++)
        largest = load(row[j]) > largest ? load(row[j]) : largest;
    largest = capped(largest, cap);
    real logit = capped(load(row[target]), cap);
    double at_target = (double)logit - largest, sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < vocab; j++) {
        real e = real_exp(capped(load(row[j]), cap) - largest);
        if (keep)
            row[j] = store(e);
        sum += (double)e;
    }
    real factor = (real)(grad_weight / sum);
#pragma omp simd
    for (size_t j = 0; j < vocab; j++) {
        real y = capped(load(row[j]), cap);
        row[j] = store((keep ? y : real_exp(y - largest)) * factor * cap_slope(y, cap));
    }
    real probability = keep ? load(row[target]) : real_exp(logit - largest) * factor;
    row[target] = store((probability - grad_weight) * cap_slope(logit, cap));
    return log(sum) - at_target;
}

void NAME(cross_entropy)(struct device *device, struct tensor logits, struct tensor targets, struct tensor loss,
                         double loss_weight, double grad_weight, double cap)
{
    const int32_t *target = targets.data;
    stored *data = logits.data;
    size_t vocab = logits.cols;
    double total = 0;
    for (size_t first = 0; first < logits.rows; first += ROWS) {
        size_t rows = logits.rows - first < ROWS ? logits.rows - first : ROWS;
        double losses[ROWS];
#pragma omp parallel for schedule(static) if (rows * vocab > PARALLEL_ELEMENTS)
        for (size_t r = 0; r < rows; r++) {
            stored *row = data + (first + r) * vocab;
            losses[r] = 0;
            if (target[first + r] >= 0)
                losses[r] = cap > 0 ? row_gradient(row, vocab, target[first + r], (real)grad_weight, (real)cap)
                                    : row_gradient(row, vocab, target[first + r], (real)grad_weight, 0);
            else
                memset(row, 0, vocab * sizeof *row);
        }
        for (size_t r = 0; r < rows; r++)
            total += losses[r];
    }
    *(double *)loss.data += loss_weight * total;
}
