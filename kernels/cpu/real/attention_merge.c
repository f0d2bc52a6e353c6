// Combines attention over two sets of keys by their logsumexps.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

void NAME(attention_merge)(struct device *device, struct tensor o, struct tensor logsumexp, struct tensor other_o,
                           struct tensor other_logsumexp)
{
    struct accumulator sum = accumulator_of(o);
    const stored *other = other_o.data;
    real *statistic = logsumexp.data;
    const real *other_statistic = other_logsumexp.data;
    size_t heads = tensor_count(logsumexp), dim = heads ? tensor_count(o) / heads : 0;
#pragma omp parallel for schedule(static) if (tensor_count(o) > PARALLEL_ELEMENTS)
    for (size_t h = 0; h < heads; h++) {
        double a = statistic[h], b = other_statistic[h], m = fmax(a, b) + log1p(exp(-fabs(a - b)));
        real factor = (real)exp(a - m), other_factor = (real)exp(b - m);
        for (size_t d = h * dim; d < (h + 1) * dim; d++)
            accumulator_set(sum, d, factor * accumulator_get(sum, d) + other_factor * load(other[d]));
        statistic[h] = (real)m;
    }
}
