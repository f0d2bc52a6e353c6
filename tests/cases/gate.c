// Gated output: gates of every size, up to those whose sigma is 0 or 1; in place and beside.
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

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

void gate_forward_cases(struct cases *c)
{
    for (size_t s = 0; s < 2 * SHAPES; s++) {
        size_t n = shapes[s / 2][0], f = shapes[s / 2][1];
        if (case_is_too_large(c, (double)(n * f)))
            continue;
        c->offset = s % 3 == 1;
        struct operand *x = case_random(c, n, f, 1, "x"), *gate = gates(c, n, f);
        struct operand *y = s % 2 ? x : case_output(c, n, f);
        CASE_RUN(c, op_gate_forward(c->device, y->tensor, x->tensor, gate->tensor));
        for (size_t i = 0; i < n * f; i++)
            y->values[i] = x->values[i] * sigmoid(gate->values[i]);
        case_check(c, y, 1, 16, "y");
        case_end(c);
    }
}

void gate_backward_cases(struct cases *c)
{
    for (size_t s = 0; s < 2 * SHAPES; s++) {
        size_t n = shapes[s / 2][0], f = shapes[s / 2][1];
        if (case_is_too_large(c, (double)(n * f)))
            continue;
        c->offset = s % 3 == 1;
        struct operand *x = case_random(c, n, f, 1, "x"), *gate = gates(c, n, f);
        struct operand *grad_y = case_random(c, n, f, 1, "grad_y"), *grad_x = s % 2 ? grad_y : case_output(c, n, f);
        CASE_RUN(c, op_gate_backward(c->device, grad_x->tensor, gate->tensor, grad_y->tensor, x->tensor));
        for (size_t i = 0; i < n * f; i++) {
            double g = gate->values[i], grad = grad_y->values[i];
            grad_x->values[i] = grad * sigmoid(g);
            gate->values[i] = grad * x->values[i] * sigmoid(g) * sigmoid(-g);
        }
        case_check(c, grad_x, 1, 16, "grad_x");
        case_check(c, gate, 1, 16, "gate's gradient");
        case_end(c);
    }
}
