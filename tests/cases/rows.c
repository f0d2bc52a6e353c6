// Bias and norms: rows shorter than, as long as, and longer than what a warp and a block take at once, and of
// strides that no vector access divides; sums over more rows than a block adds.
#include "tests/cases/cases.h"
#include <string.h>

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

// RMSNorm, LayerNorm, and each without a gain.
static const struct variant {
    struct norm_shape shape;
    bool gain;
} norms[] = {{{0, 1e-5, false}, true},  {{1, 1e-5, false}, true}, {{0, 1e-5, true}, true},
             {{1, 1e-5, false}, false}, {{1, 1e-5, true}, true},  {{0, 1e-5, true}, false}};

// rstd, and of LayerNorm the mean, which is 0 else.
static void statistics_of(const double *x, size_t d, struct norm_shape shape, double statistics[2])
{
    double sum = 0, mean = 0;
    for (size_t j = 0; j < d && shape.centred; j++)
        mean += x[j] / (double)d;
    for (size_t j = 0; j < d; j++)
        sum += (x[j] - mean) * (x[j] - mean);
    statistics[0] = 1 / sqrt(sum / (double)d + shape.epsilon);
    statistics[1] = mean;
}

static double factor_of(const struct variant *norm, const struct operand *gain, size_t j)
{
    return norm->gain ? norm->shape.offset + gain->values[j] : 1;
}

static struct tensor tensor_if(bool is, const struct operand *operand)
{
    return is ? operand->tensor : tensor_none();
}

static void set_statistics(struct operand *to, const double *x, size_t n, size_t d, struct norm_shape shape)
{
    for (size_t r = 0; r < n; r++) {
        double statistics[2];
        statistics_of(x + r * d, d, shape, statistics);
        memcpy(to->values + r * to->tensor.cols, statistics, to->tensor.cols * sizeof *statistics);
    }
}

// Into a tensor of its own, with the statistics; in place, without.
static void check_rmsnorm_forward(struct cases *c, size_t n, size_t d, bool in_place, const struct variant *norm)
{
    struct operand *x = case_random(c, n, d, 1, "x"), *gain = case_random(c, 1, d, 1, "gain");
    struct operand *y = in_place ? x : case_output(c, n, d);
    struct operand *rstd = case_output_in(c, case_sums(c), n, norm->shape.centred ? 2 : 1);
    CASE_RUN(c, op_rmsnorm_forward(c->device, y->tensor, tensor_if(!in_place, rstd), x->tensor,
                                   tensor_if(norm->gain, gain), norm->shape));
    set_statistics(rstd, x->values, n, d, norm->shape);
    for (size_t r = 0; r < n; r++) {
        double of[2];
        statistics_of(x->values + r * d, d, norm->shape, of);
        for (size_t i = r * d; i < (r + 1) * d; i++)
            y->values[i] = (x->values[i] - of[1]) * of[0] * factor_of(norm, gain, i - r * d);
    }
    case_check(c, y, 1, 64, "y%s", in_place ? " in place" : "");
    if (!in_place)
        case_check(c, rstd, 0, 64, "statistics");
    case_end(c);
}

void rmsnorm_forward_cases(struct cases *c)
{
    for (size_t s = 0; s < 2 * SHAPES; s++) {
        size_t n = shapes[s / 2][0], d = shapes[s / 2][1];
        c->offset = s % 3 == 2;
        const struct variant *two[] = {&norms[s / 2 % 2], &norms[2 + (s / 2 + s % 2) % 4]};
        for (size_t v = 0; v < 2 && !case_is_too_large(c, (double)(n * d)); v++)
            if (d > 1 || !two[v]->shape.centred) // one number is its row's mean
                check_rmsnorm_forward(c, n, d, s % 2, two[v]);
    }
}

enum { APART, IN_GRAD_Y, IN_X, ACCUMULATED, ABSENT, VARIANTS }; // grad_x; accumulated without grad_gain

static void check_rmsnorm_backward(struct cases *c, size_t n, size_t d, int variant, const struct variant *norm,
                                   enum dtype dtype)
{
    bool accumulate = variant == ACCUMULATED, gains = norm->gain && !accumulate;
    struct operand *x = case_random(c, n, d, 1, "x"), *gain = case_random(c, 1, d, 1, "gain");
    struct operand *grad_y = case_random(c, n, d, 1, "grad_y");
    struct operand *rstd = case_output_in(c, case_sums(c), n, norm->shape.centred ? 2 : 1);
    struct operand *grad_gain = case_random_in(c, dtype, 1, d, 1, "grad_gain");
    struct operand *grad_x = variant == IN_GRAD_Y ? grad_y
                             : variant == IN_X    ? x
                             : variant == ABSENT  ? NULL
                             : accumulate         ? case_random(c, n, d, 1, "grad_x")
                                                  : case_output(c, n, d);
    for (size_t i = 0; i < n * d; i++)
        x->values[i] = dtype_round(x->values[i], x->tensor.dtype);
    set_statistics(rstd, x->values, n, d, norm->shape);
    CASE_RUN(c, op_rmsnorm_backward(c->device, grad_x ? grad_x->tensor : tensor_none(), accumulate,
                                    tensor_if(gains, grad_gain), grad_y->tensor, x->tensor,
                                    tensor_if(norm->gain, gain), norm->shape, rstd->tensor));
    for (size_t r = 0; r < n; r++) {
        double dot = 0, sum = 0, of[2];
        statistics_of(x->values + r * d, d, norm->shape, of);
        for (size_t j = 0; j < d; j++) {
            double u = grad_y->values[r * d + j] * factor_of(norm, gain, j);
            dot += u * (x->values[r * d + j] - of[1]) / (double)d;
            sum += norm->shape.centred ? u / (double)d : 0;
        }
        for (size_t j = 0; j < d; j++) {
            size_t i = r * d + j;
            double g = grad_y->values[i], value = x->values[i] - of[1];
            double gradient = of[0] * (g * factor_of(norm, gain, j) - sum - value * of[0] * of[0] * dot);
            grad_gain->values[j] += gains ? g * value * of[0] : 0;
            if (grad_x)
                grad_x->values[i] = accumulate ? grad_x->values[i] + gradient : gradient;
        }
    }
    if (grad_x)
        case_check(c, grad_x, 1, 100, "grad_x, variant %d", variant);
    if (gains)
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
            const struct variant *two[] = {&norms[s % 2], &norms[2 + (s + (size_t)variant) % 4]};
            c->offset = variant == IN_GRAD_Y;
            for (size_t v = 0; v < 2 && !case_is_too_large(c, (double)(n * d)); v++) {
                // A row that has no more numbers than this is normed to 1 and -1: its gradient vanishes. Centred,
                // one number is its row's mean.
                size_t least = two[v]->shape.centred ? 2 : 1;
                bool of_x = d > least && (two[v]->gain || variant != ABSENT);
                bool of_gain = d >= least && two[v]->gain && variant != ACCUMULATED;
                if (of_x || of_gain)
                    check_rmsnorm_backward(c, n, d, variant, two[v], dtypes[variant == IN_X ? kinds - 1 : 0]);
            }
        }
    }
}
