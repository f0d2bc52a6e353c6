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

// An expert's row of gpt-oss.
static void clamped_forward(stored *py, const stored *pg, const stored *pu, size_t n, real alpha, real limit)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        real g = load(pg[i]), u = load(pu[i]);
        g = g > limit ? limit : g;
        u = u > limit ? limit : u < -limit ? -limit : u;
        py[i] = store((u + 1) * g / (1 + real_exp(-alpha * g)));
    }
}

static real clamped_backward(stored *pg, stored *pu, stored *py, size_t n, real weight, real alpha, real limit)
{
    real dot = 0;
#pragma omp simd reduction(+ : dot)
    for (size_t i = 0; i < n; i++) {
        real gate = load(pg[i]), up = load(pu[i]), of_y = load(py[i]), grad = weight * of_y;
        real g = gate > limit ? limit : gate, u = up > limit ? limit : up < -limit ? -limit : up;
        real sigma = 1 / (1 + real_exp(-alpha * g)), act = g * sigma, y = (u + 1) * act;
        dot += of_y * y;
        pg[i] = store(gate > limit ? 0 : grad * (u + 1) * (sigma + alpha * act * (1 - sigma)));
        pu[i] = store(up > limit || up < -limit ? 0 : grad * act);
        py[i] = store(weight * y);
    }
    return dot;
}

void NAME(expert_act_forward)(struct device *device, struct tensor y, struct tensor gate_up, struct expert_act act)
{
    size_t f = y.cols;
#pragma omp parallel for schedule(static) if (tensor_count(y) > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < y.rows; r++) {
        stored *py = (stored *)y.data + r * f;
        const stored *pg = (const stored *)gate_up.data + 2 * r * f;
        if (act.alpha > 0)
            clamped_forward(py, pg, pg + f, f, (real)act.alpha, (real)act.limit);
        else if (act.activation == ACTIVATION_SILU)
            forward_piece(py, pg, pg + f, f, ACTIVATION_SILU);
        else
            forward_piece(py, pg, pg + f, f, ACTIVATION_GELU_TANH);
    }
}

static real row_backward(stored *pg, stored *pu, stored *py, size_t n, real weight, struct expert_act act)
{
    if (act.alpha > 0)
        return clamped_backward(pg, pu, py, n, weight, (real)act.alpha, (real)act.limit);
    return act.activation == ACTIVATION_SILU ? backward_piece(pg, pu, py, n, weight, ACTIVATION_SILU)
                                             : backward_piece(pg, pu, py, n, weight, ACTIVATION_GELU_TANH);
}

void NAME(expert_act_backward)(struct device *device, struct tensor gate_up, struct tensor grad,
                               struct tensor grad_weights, struct tensor weights, struct tensor slots, size_t first,
                               struct expert_act act)
{
    size_t f = grad.cols;
    const int32_t *slot = (const int32_t *)slots.data + first;
#pragma omp parallel for schedule(static) if (tensor_count(grad) > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < grad.rows; r++) {
        stored *pg = (stored *)gate_up.data + 2 * r * f, *pv = (stored *)grad.data + r * f;
        real weight = ((const real *)weights.data)[slot[r]];
        ((real *)grad_weights.data)[slot[r]] = row_backward(pg, pg + f, pv, f, weight, act);
    }
}
