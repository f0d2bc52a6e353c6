// RMSNorm (Zhang & Sennrich 2019), LayerNorm without a bias, and biases. With c = x - mean(x) of LayerNorm, c = x
// else:
//   forward:  rstd = 1 / sqrt(mean(c^2) + epsilon), y = c * rstd * (offset + gain)
//   backward: u = grad_y * (offset + gain), g = rstd * (u - mean(u) - c * rstd^2 * mean(u * c)), of RMSNorm without
//             mean(u); grad_x = or += g; grad_gain += sum over rows of grad_y * c * rstd
// Means are summed in f64: memory reads hide the cost, and the reference gradients of every method use this kernel.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

static double mean_of(const stored *row, size_t d)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < d; j++)
        sum += (double)load(row[j]);
    return sum / d;
}

// Factors of a row, gain NULL: 1.
static real factor_of(const stored *gain, real base, size_t j)
{
    return gain ? base + load(gain[j]) : 1;
}

void NAME(rmsnorm_forward)(struct device *device, struct tensor y, struct tensor rstd, struct tensor x,
                           struct tensor gain, struct norm_shape shape)
{
    const real base = (real)shape.offset;
    const stored *px = x.data, *pg = gain.data;
    stored *py = y.data;
    real *pr = rstd.data;
    size_t d = x.cols, statistics = shape.centred ? 2 : 1;
#pragma omp parallel for schedule(static) if (x.rows * d > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < x.rows; r++) {
        const stored *row = px + r * d;
        double sum = 0;
        real mean = shape.centred ? (real)mean_of(row, d) : 0;
#pragma omp simd reduction(+ : sum)
        for (size_t j = 0; j < d; j++)
            sum += (double)(load(row[j]) - mean) * (load(row[j]) - mean);
        real scale = (real)(1 / sqrt(sum / d + shape.epsilon));
#pragma omp simd
        for (size_t j = 0; j < d; j++)
            py[r * d + j] = store((load(row[j]) - mean) * scale * factor_of(pg, base, j));
        if (pr)
            pr[r * statistics] = scale;
        if (pr && shape.centred)
            pr[r * statistics + 1] = mean;
    }
}

static void gain_backward(struct tensor grad_gain, struct tensor grad_y, struct tensor x, bool centred,
                          struct tensor rstd)
{
    const stored *px = x.data, *pgy = grad_y.data;
    const real *pr = rstd.data;
    struct accumulator out = accumulator_of(grad_gain);
    size_t d = x.cols, statistics = centred ? 2 : 1;
#pragma omp parallel for schedule(static) if (x.rows * d > PARALLEL_ELEMENTS)
    for (size_t first = 0; first < d; first += STRIP) {
        size_t width = d - first < STRIP ? d - first : STRIP;
        real sums[STRIP] = {0};
        for (size_t r = 0; r < x.rows; r++) {
            const stored *row = px + r * d + first, *grad = pgy + r * d + first;
            real scale = pr[r * statistics], mean = centred ? pr[r * statistics + 1] : 0;
#pragma omp simd
            for (size_t j = 0; j < width; j++)
                sums[j] += load(grad[j]) * (load(row[j]) - mean) * scale;
        }
        for (size_t j = 0; j < width; j++)
            accumulator_set(out, first + j, accumulator_get(out, first + j) + sums[j]);
    }
}

void NAME(rmsnorm_backward)(struct device *device, struct tensor grad_x, bool accumulate, struct tensor grad_gain,
                            struct tensor grad_y, struct tensor x, struct tensor gain, struct norm_shape shape,
                            struct tensor rstd)
{
    const real base = (real)shape.offset;
    const stored *px = x.data, *pgy = grad_y.data, *pg = gain.data;
    const real *pr = rstd.data;
    stored *pgx = grad_x.data;
    size_t d = x.cols, statistics = shape.centred ? 2 : 1;
    // First, because grad_x may be x or grad_y.
    if (grad_gain.data)
        gain_backward(grad_gain, grad_y, x, shape.centred, rstd);
    if (!pgx)
        return;
#pragma omp parallel for schedule(static) if (x.rows * d > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < x.rows; r++) {
        const stored *row = px + r * d, *grad = pgy + r * d;
        stored *out = pgx + r * d;
        double dot = 0, sum = 0;
        real scale = pr[r * statistics], mean = shape.centred ? pr[r * statistics + 1] : 0;
#pragma omp simd reduction(+ : dot)
        for (size_t j = 0; j < d; j++)
            dot += (double)(load(grad[j]) * factor_of(pg, base, j)) * (load(row[j]) - mean);
        for (size_t j = 0; j < d && shape.centred; j++)
            sum += (double)(load(grad[j]) * factor_of(pg, base, j));
        real along = (real)(dot / d * scale * scale), shift = (real)(sum / d);
        if (accumulate) {
#pragma omp simd
            for (size_t j = 0; j < d; j++) {
                out[j] = store(load(out[j]) + scale * (load(grad[j]) * factor_of(pg, base, j) -
                                                       (load(row[j]) - mean) * along - shift));
            }
        } else {
#pragma omp simd
            for (size_t j = 0; j < d; j++) {
                out[j] =
                    store(scale * (load(grad[j]) * factor_of(pg, base, j) - (load(row[j]) - mean) * along - shift));
            }
        }
    }
}

void NAME(bias_forward)(struct device *device, struct tensor y, struct tensor bias)
{
    stored *py = y.data;
    const stored *pb = bias.data;
    size_t d = y.cols;
#pragma omp parallel for schedule(static) if (y.rows * d > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < y.rows; r++) {
#pragma omp simd
        for (size_t j = 0; j < d; j++)
            py[r * d + j] = store(load(py[r * d + j]) + load(pb[j]));
    }
}

void NAME(bias_backward)(struct device *device, struct tensor grad_bias, struct tensor grad_y)
{
    const stored *pgy = grad_y.data;
    struct accumulator out = accumulator_of(grad_bias);
    size_t d = grad_y.cols;
#pragma omp parallel for schedule(static) if (grad_y.rows * d > PARALLEL_ELEMENTS)
    for (size_t first = 0; first < d; first += STRIP) {
        size_t width = d - first < STRIP ? d - first : STRIP;
        real sums[STRIP] = {0};
        for (size_t r = 0; r < grad_y.rows; r++) {
#pragma omp simd
            for (size_t j = 0; j < width; j++)
                sums[j] += load(pgy[r * d + first + j]);
        }
        for (size_t j = 0; j < width; j++)
            accumulator_set(out, first + j, accumulator_get(out, first + j) + sums[j]);
    }
}
