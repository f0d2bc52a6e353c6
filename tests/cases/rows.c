// Bias and RMSNorm: rows shorter than, as long as, and longer than what a warp and a block take at once, and of
// strides that no vector access divides; sums over more rows than a block adds.
#include "tests/cases/cases.h"

static const size_t shapes[][2] = {{1, 1},     {1, 2},     {3, 65},   {500, 70}, {5, 64},    {300, 130},
                                   {7, 72},    {64, 256},  {9, 1024}, {3, 1111}, {70, 1030}, {7, 2056},
                                   {5000, 16}, {64, 4096}, {7, 5120}, {4200, 5}};
#define SHAPES (sizeof shapes / sizeof *shapes)

void bias_forward_cases(struct cases *c)
{
    for (size_t s = 0; s < SHAPES; s++) {
        size_t n = shapes[s][0], d = shapes[s][1];
        if (case_is_too_large(c, (double)(n * d)))
            continue;
        c->offset = s % 3 == 2;
        struct operand *y = case_random(c, n, d, 1, "y"), *bias = case_random(c, 1, d, 1, "bias");
        CASE_RUN(c, op_bias_forward(c->device, y->tensor, bias->tensor));
        for (size_t i = 0; i < n * d; i++)
            y->values[i] += bias->values[i % d];
        case_check(c, y, 1, 1, "y");
        case_end(c);
    }
}

void bias_backward_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t s = 0; s < SHAPES * kinds; s++) {
        size_t n = shapes[s / kinds][0], d = shapes[s / kinds][1];
        enum dtype dtype = dtypes[s % kinds];
        if (case_is_too_large(c, (double)(n * d)))
            continue;
        c->offset = s % 3 == 2;
        struct operand *grad_y = case_random(c, n, d, 1, "y"), *grad = case_random_in(c, dtype, 1, d, 1, "grad");
        CASE_RUN(c, op_bias_backward(c->device, grad->tensor, grad_y->tensor));
        for (size_t i = 0; i < n * d; i++)
            grad->values[i % d] += grad_y->values[i];
        case_check(c, grad, dtype == c->device->ops->dtype, case_growth(n), "grad_bias");
        case_end(c);
    }
}

static const double epsilon = 1e-5, offsets[] = {0, 1};

static double rstd_of(const double *x, size_t d)
{
    double sum = 0;
    for (size_t j = 0; j < d; j++)
        sum += x[j] * x[j];
    return 1 / sqrt(sum / (double)d + epsilon);
}

// Into a tensor of its own, with rstd; in place, without.
void rmsnorm_forward_cases(struct cases *c)
{
    for (size_t s = 0; s < 2 * SHAPES; s++) {
        size_t n = shapes[s / 2][0], d = shapes[s / 2][1];
        bool in_place = s % 2;
        double offset = offsets[s / 2 % 2];
        if (case_is_too_large(c, (double)(n * d)))
            continue;
        c->offset = s % 3 == 2;
        struct operand *x = case_random(c, n, d, 1, "x"), *gain = case_random(c, 1, d, 1, "gain");
        struct operand *y = in_place ? x : case_output(c, n, d);
        struct operand *rstd = case_output_in(c, case_sums(c), n, 1);
        CASE_RUN(c, op_rmsnorm_forward(c->device, y->tensor, in_place ? tensor_none() : rstd->tensor, x->tensor,
                                       gain->tensor, offset, epsilon));
        for (size_t r = 0; r < n; r++) {
            double scale = rstd_of(x->values + r * d, d);
            rstd->values[r] = scale;
            for (size_t i = r * d; i < (r + 1) * d; i++)
                y->values[i] = x->values[i] * scale * (offset + gain->values[i - r * d]);
        }
        case_check(c, y, 1, 64, "y%s", in_place ? " in place" : "");
        if (!in_place)
            case_check(c, rstd, 0, 64, "rstd");
        case_end(c);
    }
}

enum { APART, IN_GRAD_Y, IN_X, ACCUMULATED, ABSENT, VARIANTS }; // grad_x; accumulated without grad_gain

static void check_rmsnorm_backward(struct cases *c, size_t n, size_t d, int variant, double offset,
                                   enum dtype dtype)
{
    bool accumulate = variant == ACCUMULATED;
    struct operand *x = case_random(c, n, d, 1, "x"), *gain = case_random(c, 1, d, 1, "gain");
    struct operand *grad_y = case_random(c, n, d, 1, "grad_y"), *rstd = case_output_in(c, case_sums(c), n, 1);
    struct operand *grad_gain = case_random_in(c, dtype, 1, d, 1, "grad_gain");
    struct operand *grad_x = variant == IN_GRAD_Y ? grad_y
                             : variant == IN_X    ? x
                             : variant == ABSENT  ? NULL
                             : accumulate         ? case_random(c, n, d, 1, "grad_x")
                                                  : case_output(c, n, d);
    for (size_t i = 0; i < n * d; i++)
        x->values[i] = dtype_round(x->values[i], x->tensor.dtype);
    for (size_t r = 0; r < n; r++)
        rstd->values[r] = rstd_of(x->values + r * d, d);
    CASE_RUN(c, op_rmsnorm_backward(c->device, grad_x ? grad_x->tensor : tensor_none(), accumulate,
                                    accumulate ? tensor_none() : grad_gain->tensor, grad_y->tensor, x->tensor,
                                    gain->tensor, offset, rstd->tensor));
    for (size_t r = 0; r < n; r++) {
        double dot = 0, scale = rstd->values[r];
        for (size_t j = 0; j < d; j++)
            dot += grad_y->values[r * d + j] * (offset + gain->values[j]) * x->values[r * d + j];
        for (size_t j = 0; j < d; j++) {
            size_t i = r * d + j;
            double g = grad_y->values[i], value = x->values[i];
            double gradient = scale * (g * (offset + gain->values[j]) - value * scale * scale * dot / (double)d);
            grad_gain->values[j] += accumulate ? 0 : g * value * scale;
            if (grad_x)
                grad_x->values[i] = accumulate ? grad_x->values[i] + gradient : gradient;
        }
    }
    if (grad_x)
        case_check(c, grad_x, 1, 100, "grad_x, variant %d", variant);
    if (!accumulate)
        case_check(c, grad_gain, dtype == c->device->ops->dtype, case_growth(n), "grad_gain, variant %d", variant);
    case_end(c);
}

void rmsnorm_backward_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t s = 0; s < SHAPES; s++) {
        for (int variant = 0; variant < VARIANTS; variant++) {
            size_t n = shapes[s][0], d = shapes[s][1];
            bool vanishes = d == 1; // the gradient
            if (!(vanishes && variant == ACCUMULATED) && !case_is_too_large(c, (double)(n * d))) {
                c->offset = variant == IN_GRAD_Y;
                check_rmsnorm_backward(c, n, d, variant, offsets[s % 2], dtypes[variant == IN_X ? kinds - 1 : 0]);
            }
        }
    }
}
