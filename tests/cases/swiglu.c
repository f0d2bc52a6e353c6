// SwiGLU and GeGLU: gates of every size, up to those whose sigma is 0 or 1.
#include "tests/cases/cases.h"

static const size_t shapes[][2] = {{1, 1}, {3, 7}, {1, 2048}, {40, 103}, {40, 1030}, {64, 14336}};
#define SHAPES (sizeof shapes / sizeof *shapes)

static struct operand *gates(struct cases *c, size_t n, size_t f)
{
    struct operand *gate = case_random(c, n, f, 4, "gate");
    gate->values[0] = 100;
    gate->values[n * f - 1] = -100; // no NaN
    return gate;
}

// z of device.h, in GELU's published form: 0.5 g (1 + tanh(u)) = g sigma(2 u).
static double argument(double g, enum activation activation)
{
    return activation == ACTIVATION_SILU ? g : 2 * sqrt(2 / M_PI) * (g + 0.044715 * pow(g, 3));
}

static double argument_slope(double g, enum activation activation)
{
    return activation == ACTIVATION_SILU ? 1 : 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * g * g);
}

void swiglu_forward_cases(struct cases *c)
{
    for (size_t s = 0; s < 2 * ACTIVATION_COUNT * SHAPES; s++) {
        size_t n = shapes[s / 2 % SHAPES][0], f = shapes[s / 2 % SHAPES][1];
        enum activation activation = (enum activation)(s / 2 / SHAPES);
        if (case_is_too_large(c, (double)(n * f)))
            continue;
        c->offset = s % 2;
        struct operand *gate = gates(c, n, f), *up = case_random(c, n, f, 1, "up"), *y = case_output(c, n, f);
        CASE_RUN(c, op_swiglu_forward(c->device, y->tensor, gate->tensor, up->tensor, activation));
        for (size_t i = 0; i < n * f; i++)
            y->values[i] = gate->values[i] / (1 + exp(-argument(gate->values[i], activation))) * up->values[i];
        case_check(c, y, 1, 16, "y, activation %d", activation);
        case_end(c);
    }
}

void swiglu_backward_cases(struct cases *c)
{
    // Half a rounding of 1, by which sigma is off, in 1 - sigma, times the largest g * slope where f32's sigma is
    // not yet 1.
    static const double of_sigma[ACTIVATION_COUNT] = {
        [ACTIVATION_SILU] = 17 / 2.0, [ACTIVATION_GELU_TANH] = 33 / 2.0};
    for (size_t s = 0; s < 2 * ACTIVATION_COUNT * SHAPES; s++) {
        size_t n = shapes[s / 2 % SHAPES][0], f = shapes[s / 2 % SHAPES][1];
        enum activation activation = (enum activation)(s / 2 / SHAPES);
        if (case_is_too_large(c, (double)(n * f)))
            continue;
        c->offset = s % 2;
        struct operand *gate = gates(c, n, f), *up = case_random(c, n, f, 1, "up");
        struct operand *grad = case_random(c, n, f, 1, "grad");
        CASE_RUN(c, op_swiglu_backward(c->device, gate->tensor, up->tensor, grad->tensor, activation));
        for (size_t i = 0; i < n * f; i++) {
            double g = gate->values[i], u = up->values[i], grad_y = grad->values[i];
            double sigma = 1 / (1 + exp(-argument(g, activation))), slope = argument_slope(g, activation);
            gate->values[i] = grad_y * u * sigma * (1 + g * slope * (1 - sigma));
            up->values[i] = grad_y * g * sigma;
            grad->values[i] = g * sigma * u;
        }
        case_check(c, gate, 1, 16 + of_sigma[activation], "gate's gradient, activation %d", activation);
        case_check(c, up, 1, 16, "up's gradient, activation %d", activation);
        case_check(c, grad, 1, 16, "y, activation %d", activation);
        case_end(c);
    }
}
