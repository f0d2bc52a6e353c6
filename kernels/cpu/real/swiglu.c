// SwiGLU (Shazeer 2020): y = silu(gate) * up, silu(g) = g * sigma(g), sigma(g) = 1 / (1 + exp(-g)).
// Backward, in place: grad_gate = grad_y * up * sigma * (1 + g * (1 - sigma)), grad_up = grad_y * silu(gate),
// and grad_y becomes y.
#include "kernels/cpu/real/kernels.h"

// Elements per piece of work; the vector exponential wants an array of arguments that stays in the first cache.
#define PIECE 1024

void NAME(swiglu_forward)(struct device *device, struct tensor y, struct tensor gate, struct tensor up)
{
    (void)device;
    const stored *pg = gate.data, *pu = up.data;
    stored *py = y.data;
    size_t count = tensor_count(y);
#pragma omp parallel for schedule(static) if (count > 8 * PIECE)
    for (size_t first = 0; first < count; first += PIECE) {
        size_t n = count - first < PIECE ? count - first : PIECE;
#pragma omp simd
        for (size_t i = first; i < first + n; i++) {
            real g = load(pg[i]);
            py[i] = store(g / (1 + real_exp(-g)) * load(pu[i]));
        }
    }
}

void NAME(swiglu_backward)(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y)
{
    (void)device;
    stored *pg = gate.data, *pu = up.data, *py = grad_y.data;
    size_t count = tensor_count(grad_y);
#pragma omp parallel for schedule(static) if (count > 8 * PIECE)
    for (size_t first = 0; first < count; first += PIECE) {
        size_t n = count - first < PIECE ? count - first : PIECE;
#pragma omp simd
        for (size_t i = first; i < first + n; i++) {
            real g = load(pg[i]), u = load(pu[i]), grad = load(py[i]);
            real sigma = 1 / (1 + real_exp(-g)), silu = g * sigma;
            pg[i] = store(grad * u * (sigma * (1 + g * (1 - sigma))));
            pu[i] = store(grad * silu);
            py[i] = store(silu * u);
        }
    }
}
