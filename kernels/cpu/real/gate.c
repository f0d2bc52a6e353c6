// Gated output (Qwen3-Next): y = x s, s = 1 / (1 + exp(-gate)); grad_x = grad_y s, and gate becomes its gradient,
// grad_y x s (1 - s).
#include "kernels/cpu/real/kernels.h"

// Elements per piece of work: threads divide them alike, whatever their number, so that each has the same
// exponential.
#define PIECE 1024

void NAME(gate_forward)(struct device *device, struct tensor y, struct tensor x, struct tensor gate)
{
    stored *py = y.data;
    const stored *px = x.data, *pg = gate.data;
    size_t count = tensor_count(y);
#pragma omp parallel for schedule(static) if (count > 8 * PIECE)
    for (size_t first = 0; first < count; first += PIECE) {
        size_t end = count - first < PIECE ? count : first + PIECE;
#pragma omp simd
        for (size_t i = first; i < end; i++)
            py[i] = store(load(px[i]) / (1 + real_exp(-load(pg[i]))));
    }
}

void NAME(gate_backward)(struct device *device, struct tensor grad_x, struct tensor gate, struct tensor grad_y,
                         struct tensor x)
{
    stored *pgx = grad_x.data, *pg = gate.data;
    const stored *pgy = grad_y.data, *px = x.data;
    size_t count = tensor_count(grad_x);
#pragma omp parallel for schedule(static) if (count > 8 * PIECE)
    for (size_t first = 0; first < count; first += PIECE) {
        size_t end = count - first < PIECE ? count : first + PIECE;
#pragma omp simd
        for (size_t i = first; i < end; i++) {
            // 1 - s by itself: where s rounds to 1 its gradient is not yet 0.
            real g = load(pg[i]), e = real_exp(g < 0 ? g : -g), large = 1 / (1 + e), small = e / (1 + e);
            real s = g < 0 ? small : large, grad = load(pgy[i]);
            pg[i] = store(grad * load(px[i]) * large * small);
            pgx[i] = store(grad * s);
        }
    }
}
