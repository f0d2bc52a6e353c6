// RMSNorm (Zhang & Sennrich 2019), and biases.
//   forward:  rstd = 1 / sqrt(mean(x^2) + epsilon), y = x * rstd * (offset + gain)
//   backward: u = grad_y * (offset + gain), g = rstd * (u - x * rstd^2 * mean(u * x)); grad_x = or += g;
//             grad_gain += sum over rows of grad_y * x * rstd
// Means are summed in f64: memory reads hide the cost, and the reference gradients of every method use this kernel.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

void NAME(rmsnorm_forward)(struct device *device, struct tensor y, struct tensor rstd, struct tensor x,
                           struct tensor gain, double offset, double epsilon)
{
    const real base = (real)offset;
    const stored *px = x.data, *pg = gain.data;
    stored *py = y.data;
    real *pr = rstd.data;
    size_t d = x.cols;
#pragma omp parallel for schedule(static) if (x.rows * d > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < x.rows; r++) {
        const stored *row = px + r * d;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t j = 0; j < d; j++)
            sum += (double)load(row[j]) * load(row[j]);
        real scale = (real)(1 / sqrt(sum / d + epsilon));
#pragma omp simd
        for (size_t j = 0; j < d; j++)
            py[r * d + j] = store(load(row[j]) * scale * (base + load(pg[j])));
        if (pr)
            pr[r] = scale;
    }
}

static void gain_backward(struct tensor grad_gain, struct tensor grad_y, struct tensor x, struct tensor rstd)
{
    const stored *px = x.data, *pgy = grad_y.data;
    const real *pr = rstd.data;
    struct accumulator out = accumulator_of(grad_gain);
    size_t d = x.cols;
#pragma omp parallel for schedule(static) if (x.rows * d > PARALLEL_ELEMENTS)
    for (size_t first = 0; first < d; first += STRIP) {
        size_t width = d - first < STRIP ? d - first : STRIP;
        real sums[STRIP] = {0};
        for (size_t r = 0; r < x.rows; r++) {
            const stored *row = px + r * d + first, *grad = pgy + r * d + first;
            real scale = pr[r];
#pragma omp simd
            for (size_t j = 0; j < width; j++)
                sums[j] += load(grad[j]) * load(row[j]) * scale;
        }
        for (size_t j = 0; j < width; j++)
            accumulator_set(out, first + j, accumulator_get(out, first + j) + sums[j]);
    }
}

void NAME(rmsnorm_backward)(struct device *device, struct tensor grad_x, bool accumulate, struct tensor grad_gain,
                            struct tensor grad_y, struct tensor x, struct tensor gain, double offset,
                            struct tensor rstd)
{
    const real base = (real)offset;
    const stored *px = x.data, *pgy = grad_y.data, *pg = gain.data;
    const real *pr = rstd.data;
    stored *pgx = grad_x.data;
    size_t d = x.cols;
    // First, because grad_x may be x or grad_y.
    if (grad_gain.data)
        gain_backward(grad_gain, grad_y, x, rstd);
    if (!pgx)
        return;
#pragma omp parallel for schedule(static) if (x.rows * d > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < x.rows; r++) {
        const stored *row = px + r * d, *grad = pgy + r * d;
        stored *out = pgx + r * d;
        double dot = 0;
#pragma omp simd reduction(+ : dot)
        for (size_t j = 0; j < d; j++)
            dot += (double)(load(grad[j]) * (base + load(pg[j]))) * load(row[j]);
        real scale = pr[r], along = (real)(dot / d * scale * scale);
        if (accumulate) {
#pragma omp simd
            for (size_t j = 0; j < d; j++) {
                out[j] =
                    store(load(out[j]) + scale * (load(grad[j]) * (base + load(pg[j])) - load(row[j]) * along));
            }
        } else {
#pragma omp simd
            for (size_t j = 0; j < d; j++)
                out[j] = store(scale * (load(grad[j]) * (base + load(pg[j])) - load(row[j]) * along));
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
