// Elementwise updates: scaling, and AdamW (Loshchilov & Hutter 2019).
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

void NAME(scale)(struct device *device, struct tensor t, double factor)
{
    (void)device;
    real *data = t.data;
    size_t count = tensor_count(t);
#pragma omp parallel for simd schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++) {
        data[i] *= (real)factor;
    }
}

void NAME(adamw)(struct device *device, struct tensor w, struct tensor g, struct tensor m, struct tensor v,
                 double rate, double beta1, double beta2, double epsilon, double decay, size_t t)
{
    (void)device;
    real *pw = w.data, *pm = m.data, *pv = v.data;
    const real *pg = g.data;
    size_t count = tensor_count(w);
    real unbias1 = (real)(1 / (1 - pow(beta1, t))), unbias2 = (real)(1 / (1 - pow(beta2, t)));
    real b1 = (real)beta1, b2 = (real)beta2, e = (real)epsilon, a = (real)rate, keep = (real)(1 - rate * decay);
#pragma omp parallel for simd schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++) {
        pm[i] = b1 * pm[i] + (1 - b1) * pg[i];
        pv[i] = b2 * pv[i] + (1 - b2) * pg[i] * pg[i];
        pw[i] = pw[i] * keep - a * (pm[i] * unbias1) / (real_sqrt(pv[i] * unbias2) + e);
    }
}
