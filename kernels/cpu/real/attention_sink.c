// A sink of each head in attention's softmax: its forward scales o, its backward sums over the rows in order.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

void NAME(attention_sink_forward)(struct device *device, struct tensor o, struct tensor logsumexp,
                                  struct tensor sinks)
{
    stored *po = o.data;
    const stored *sink = sinks.data;
    real *statistic = logsumexp.data;
    size_t count = tensor_count(logsumexp), heads = sinks.cols, dim = o.cols / heads;
#pragma omp parallel for schedule(static) if (tensor_count(o) > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++) {
        double a = statistic[i], b = load(sink[i % heads]), m = fmax(a, b) + log1p(exp(-fabs(a - b)));
        real factor = (real)exp(a - m);
        for (size_t d = i * dim; d < (i + 1) * dim; d++)
            po[d] = store(factor * load(po[d]));
        statistic[i] = (real)m;
    }
}

void NAME(attention_sink_backward)(struct device *device, struct tensor grad_sinks, struct tensor grad_o,
                                   struct tensor o, struct tensor logsumexp, struct tensor sinks)
{
    const stored *po = o.data, *pgo = grad_o.data, *sink = sinks.data;
    const real *statistic = logsumexp.data;
    struct accumulator out = accumulator_of(grad_sinks);
    size_t rows = o.rows, heads = sinks.cols, dim = o.cols / heads;
#pragma omp parallel for schedule(static) if (tensor_count(o) > PARALLEL_ELEMENTS)
    for (size_t h = 0; h < heads; h++) {
        double sum = 0;
        for (size_t r = 0; r < rows; r++) {
            size_t i = r * heads + h;
            double delta = 0;
#pragma omp simd reduction(+ : delta)
            for (size_t d = i * dim; d < (i + 1) * dim; d++)
                delta += (double)(load(pgo[d]) * load(po[d]));
            sum += exp((double)load(sink[h]) - (double)statistic[i]) * delta;
        }
        accumulator_set(out, h, (real)((double)accumulator_get(out, h) - sum));
    }
}
