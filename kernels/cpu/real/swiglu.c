// SwiGLU and GeGLU (Shazeer 2020): y = act(gate) * up, act(g) = g * sigma(z), sigma(z) = 1 / (1 + exp(-z)), z as in
// kernels/device/device.h. Backward, in place: grad_gate = grad_y * up * sigma * (1 + g * z' * (1 - sigma)),
// grad_up = grad_y * act(gate), and grad_y becomes y. The same of experts' rows, where gate and up lie side by
// side.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

// Elements per piece of work: the vector exponential's arguments stay in the first-level cache.
#define PIECE 1024
// 2 sqrt(2 / pi), and GELU's third-degree coefficient
#define GELU_LINEAR ((real)1.5957691216057308)
#define GELU_CUBIC  ((real)0.044715)

// Inlined with a constant activation, so that each loop has one form.
static inline real argument(real g, enum activation activation)
{
    return activation == ACTIVATION_SILU ? g : GELU_LINEAR * (g + GELU_CUBIC * g * g * g);
}

static inline real argument_slope(real g, enum activation activation)
{
    return activation == ACTIVATION_SILU ? 1 : GELU_LINEAR * (1 + 3 * GELU_CUBIC * g * g);
}

// n numbers, by one thread.
__attribute__((always_inline)) static inline void forward_piece(stored *py, const stored *pg, const stored *pu,
                                                                size_t n, enum activation activation)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        real g = load(pg[i]);
        py[i] = store(g / (1 + real_exp(-argument(g, activation))) * load(pu[i]));
    }
}

// Gradient of weight * y; returns <grad, y>.
__attribute__((always_inline)) static inline real backward_piece(stored *pg, stored *pu, stored *py, size_t n,
                                                                 real weight, enum activation activation)
{
    real dot = 0;
#pragma omp simd reduction(+ : dot)
    for (size_t i = 0; i < n; i++) {
        real g = load(pg[i]), u = load(pu[i]), of_y = load(py[i]), grad = weight * of_y;
        real sigma = 1 / (1 + real_exp(-argument(g, activation))), act = g * sigma;
        real slope = g * argument_slope(g, activation);
        dot += of_y * act * u;
        pg[i] = store(grad * u * (sigma * (1 + slope * (1 - sigma))));
        pu[i] = store(grad * act);
        py[i] = store(weight * act * u);
    }
    return dot;
}

__attribute__((always_inline)) static inline void forward(stored *py, const stored *pg, const stored *pu,
                                                          size_t count, enum activation activation)
{
#pragma omp parallel for schedule(static) if (count > 8 * PIECE)
    for (size_t first = 0; first < count; first += PIECE)
        forward_piece(py + first, pg + first, pu + first, count - first < PIECE ? count - first : PIECE,
                      activation);
}

__attribute__((always_inline)) static inline void backward(stored *pg, stored *pu, stored *py, size_t count,
                                                           enum activation activation)
{
#pragma omp parallel for schedule(static) if (count > 8 * PIECE)
    for (size_t first = 0; first < count; first += PIECE)
        backward_piece(pg + first, pu + first, py + first, count - first < PIECE ? count - first : PIECE, 1,
                       activation);
}

void NAME(swiglu_forward)(struct device *device, struct tensor y, struct tensor gate, struct tensor up,
                          enum activation activation)
{
    if (activation == ACTIVATION_SILU)
        forward(y.data, gate.data, up.data, tensor_count(y), ACTIVATION_SILU);
    else
        forward(y.data, gate.data, up.data, tensor_count(y), ACTIVATION_GELU_TANH);
}

void NAME(swiglu_backward)(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y,
                           enum activation activation)
{
    if (activation == ACTIVATION_SILU)
        backward(gate.data, up.data, grad_y.data, tensor_count(grad_y), ACTIVATION_SILU);
    else
        backward(gate.data, up.data, grad_y.data, tensor_count(grad_y), ACTIVATION_GELU_TANH);
}

__attribute__((always_inline)) static inline void expert_forward(struct tensor y, struct tensor gate_up,
                                                                 enum activation activation)
{
    size_t f = y.cols;
#pragma omp parallel for schedule(static) if (tensor_count(y) > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < y.rows; r++) {
        const stored *pg = (const stored *)gate_up.data + 2 * r * f;
        forward_piece((stored *)y.data + r * f, pg, pg + f, f, activation);
    }
}

void NAME(expert_act_forward)(struct device *device, struct tensor y, struct tensor gate_up,
                              enum activation activation)
{
    if (activation == ACTIVATION_SILU)
        expert_forward(y, gate_up, ACTIVATION_SILU);
    else
        expert_forward(y, gate_up, ACTIVATION_GELU_TANH);
}

void NAME(expert_act_backward)(struct device *device, struct tensor gate_up, struct tensor grad,
                               struct tensor grad_weights, struct tensor weights, struct tensor slots, size_t first,
                               enum activation activation)
{
    size_t f = grad.cols;
    const int32_t *slot = (const int32_t *)slots.data + first;
#pragma omp parallel for schedule(static) if (tensor_count(grad) > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < grad.rows; r++) {
        stored *pg = (stored *)gate_up.data + 2 * r * f, *pv = (stored *)grad.data + r * f;
        real weight = ((const real *)weights.data)[slot[r]];
        ((real *)grad_weights.data)[slot[r]] =
            activation == ACTIVATION_SILU ? backward_piece(pg, pg + f, pv, f, weight, ACTIVATION_SILU)
                                          : backward_piece(pg, pg + f, pv, f, weight, ACTIVATION_GELU_TANH);
    }
}
