// The short convolution, against the window of a token moved on token by token.
#include "tests/cases/runs.h"
#include <string.h>

static const size_t tokens_of[] = {1, 2, 3, 4, 63, 64, 65, 130}, widths[] = {1, 7, 64, 200};
#define LENGTHS (sizeof tokens_of / sizeof *tokens_of)
#define WIDTHS  (sizeof widths / sizeof *widths)

struct conv {
    struct case_run run;
    size_t cols;
    struct operand *x, *tail, *base, *weight;
};

static struct conv conv_new(struct cases *c, size_t tokens, size_t batch, size_t cols, enum run_documents kind)
{
    struct conv conv = {.run = case_run_new(c, tokens, batch, kind), .cols = cols};
    conv.x = case_random(c, tokens * batch, cols, 1, "x");
    conv.tail = case_random(c, 3 * batch, cols, 1, "tail");
    conv.base = case_random(c, 3 * batch, cols, 1, "base");
    conv.weight = case_random(c, cols, 4, 1, "weight");
    for (size_t i = 0; kind == RUN_BEGINS && i < 3 * batch * cols; i++)
        conv.tail->values[i] = NAN; // it is not read
    return conv;
}

static struct tensor base_of(const struct conv *conv, const struct operand *base)
{
    return conv->run.prefixes ? base->tensor : tensor_none();
}

// One column of one sequence: the windows before all tokens and behind the last, [tokens + 1][3]; y, and base
// behind the run, of the forward.
static void walk(const struct conv *conv, size_t b, size_t j, double windows[][3], double *base, double *y)
{
    size_t batch = conv->run.shape.batch, cols = conv->cols;
    const double *w = &conv->weight->values[4 * j];
    for (size_t i = 0; i < 3; i++)
        windows[0][i] = conv->tail->values[(i * batch + b) * cols + j];
    for (size_t t = 0; t < conv->run.shape.tokens; t++) {
        double x = conv->x->values[(t * batch + b) * cols + j], sum = w[3] * x;
        for (size_t i = 0; i < 3; i++) {
            if (case_run_begins(&conv->run, t, b))
                windows[t][i] = case_run_continues(&conv->run, t, b) ? base[(i * batch + b) * cols + j] : 0;
            sum += w[i] * windows[t][i];
        }
        if (y)
            y[(t * batch + b) * cols + j] = sum / (1 + exp(-sum));
        windows[t + 1][0] = windows[t][1], windows[t + 1][1] = windows[t][2], windows[t + 1][2] = x;
        for (size_t i = 0; i < 3 && y && case_run_ends_prefix(&conv->run, t, b); i++)
            base[(i * batch + b) * cols + j] = windows[t + 1][i];
    }
}

static void check_forward(struct cases *c, size_t tokens, size_t batch, size_t cols, enum run_documents kind)
{
    struct conv conv = conv_new(c, tokens, batch, cols, kind);
    struct operand *y = case_output(c, tokens * batch, cols);
    for (size_t i = 0; kind == RUN_PREFIX && i < 3 * batch * cols; i++) // base is written before it is read
        if (i / cols % batch < tokens)
            conv.base->values[i] = NAN;
    CASE_RUN(c, op_short_conv_forward(c->device, conv.run.shape, y->tensor, conv.x->tensor, conv.tail->tensor,
                                      base_of(&conv, conv.base), conv.weight->tensor));
    double(*windows)[3] = calloc(tokens + 1, sizeof *windows);
    CHECK(windows);
    for (size_t i = 0; i < batch * cols; i++) {
        walk(&conv, i / cols, i % cols, windows, conv.base->values, y->values);
        for (size_t tap = 0; tap < 3; tap++)
            conv.tail->values[(tap * batch) * cols + i] = windows[tokens][tap];
    }
    free(windows);
    case_check(c, y, 1, 16, "y, %zu tokens, documents %d", tokens, kind);
    case_check(c, conv.tail, 0, 0, "tail, %zu tokens, documents %d", tokens, kind);
    if (kind == RUN_PREFIX)
        case_check(c, conv.base, 0, 0, "base, %zu tokens", tokens);
    case_end(c);
    case_run_free(&conv.run);
}

static void check_backward(struct cases *c, size_t tokens, size_t batch, size_t cols, enum run_documents kind,
                           enum dtype sums, bool in_place)
{
    struct conv conv = conv_new(c, tokens, batch, cols, kind);
    size_t rows = tokens * batch;
    struct operand *grad_y = case_random(c, rows, cols, 1, "grad_y");
    struct operand *grad_x = in_place ? grad_y : case_output(c, rows, cols);
    struct operand *grad_tail = case_random_in(c, case_sums(c), 3 * batch, cols, 1, "grad_tail");
    struct operand *grad_base = case_random_in(c, case_sums(c), 3 * batch, cols, 1, "grad_base");
    struct operand *grad_weight = case_random_in(c, sums, cols, 4, 1, "grad_weight");
    double(*windows)[3] = calloc(tokens + 1, sizeof *windows);
    CHECK(windows);
    CASE_RUN(c,
             op_short_conv_backward(c->device, conv.run.shape, grad_x->tensor, grad_tail->tensor,
                                    base_of(&conv, grad_base), grad_weight->tensor, grad_y->tensor, conv.x->tensor,
                                    conv.tail->tensor, base_of(&conv, conv.base), conv.weight->tensor));
    for (size_t i = 0; i < batch * cols; i++) {
        size_t b = i / cols, j = i % cols;
        const double *w = &conv.weight->values[4 * j];
        double grads[3];
        walk(&conv, b, j, windows, conv.base->values, NULL);
        for (size_t tap = 0; tap < 3; tap++)
            grads[tap] = grad_tail->values[(tap * batch + b) * cols + j];
        for (size_t t = tokens; t-- > 0;) {
            size_t at = (t * batch + b) * cols + j;
            double taps[4] = {windows[t][0], windows[t][1], windows[t][2], conv.x->values[at]}, sum = 0;
            for (size_t tap = 0; tap < 4; tap++)
                sum += w[tap] * taps[tap];
            for (size_t tap = 0; tap < 3 && case_run_ends_prefix(&conv.run, t, b); tap++)
                grads[tap] += grad_base->values[(tap * batch + b) * cols + j];
            double sigma = 1 / (1 + exp(-sum)), grad = grad_y->values[at] * sigma * (1 + sum * (1 - sigma));
            for (size_t tap = 0; tap < 4; tap++)
                grad_weight->values[4 * j + tap] += grad * taps[tap];
            grad_x->values[at] = grads[2] + w[3] * grad;
            grads[2] = grads[1] + w[2] * grad, grads[1] = grads[0] + w[1] * grad, grads[0] = w[0] * grad;
            for (size_t tap = 0; tap < 3 && case_run_begins(&conv.run, t, b); tap++) {
                if (case_run_continues(&conv.run, t, b))
                    grad_base->values[(tap * batch + b) * cols + j] += grads[tap];
                grads[tap] = 0;
            }
        }
        for (size_t tap = 0; tap < 3; tap++)
            grad_tail->values[(tap * batch + b) * cols + j] = grads[tap];
    }
    free(windows);
    case_check(c, grad_x, 1, 32, "grad_x, %zu tokens, documents %d", tokens, kind);
    case_check(c, grad_tail, 0, 32, "grad_tail, %zu tokens, documents %d", tokens, kind);
    if (conv.run.prefixes)
        case_check(c, grad_base, 0, 64, "grad_base, %zu tokens, documents %d", tokens, kind);
    case_check(c, grad_weight, sums == DTYPE_BF16, case_growth(rows) + 32, "grad_weight, %zu tokens, documents %d",
               tokens, kind);
    case_end(c);
    case_run_free(&conv.run);
}

void short_conv_forward_cases(struct cases *c)
{
    for (size_t i = 0; i < LENGTHS * WIDTHS * RUN_KINDS; i++) {
        size_t tokens = tokens_of[i % LENGTHS], cols = widths[i / LENGTHS % WIDTHS], batch = i % 2 ? 3 : 1;
        c->offset = i % 4 == 3;
        if (!case_is_too_large(c, (double)(tokens * batch * cols)))
            check_forward(c, tokens, batch, cols, (enum run_documents)(i / LENGTHS / WIDTHS));
    }
}

void short_conv_backward_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t accumulators = case_accumulators(c, dtypes);
    for (size_t i = 0; i < LENGTHS * WIDTHS * RUN_KINDS; i++) {
        size_t tokens = tokens_of[i % LENGTHS], cols = widths[i / LENGTHS % WIDTHS], batch = i % 2 ? 3 : 1;
        c->offset = i % 4 == 3;
        if (!case_is_too_large(c, (double)(tokens * batch * cols)))
            check_backward(c, tokens, batch, cols, (enum run_documents)(i / LENGTHS / WIDTHS),
                           dtypes[i % accumulators], i % 3 == 0);
    }
}
