// Elementwise updates: copies, scaling, and AdamW (Loshchilov & Hutter 2019).
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

void NAME(copy)(struct device *device, struct tensor dst, struct tensor src)
{
    if (dst.dtype == src.dtype) {
        cpu_copy(device, dst, src);
        return;
    }
    CHECK(REAL_BITS == 16); // the others hold no two dtypes
    struct accumulator to = accumulator_of(dst), from = accumulator_of(src);
    size_t count = tensor_count(dst);
#pragma omp parallel for simd schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++) {
        accumulator_set(to, i, accumulator_get(from, i));
    }
}

void NAME(scale)(struct device *device, struct tensor t, double factor)
{
    (void)device;
    struct accumulator data = accumulator_of(t);
    size_t count = tensor_count(t);
#pragma omp parallel for simd schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++) {
        accumulator_set(data, i, accumulator_get(data, i) * (real)factor);
    }
}

void NAME(adamw)(struct device *device, struct tensor w, struct tensor g, struct tensor m, struct tensor v,
                 double rate, double beta1, double beta2, double epsilon, double decay, size_t t)
{
    (void)device;
    stored *pw = w.data;
    struct accumulator pg = accumulator_of(g), pm = accumulator_of(m), pv = accumulator_of(v);
    size_t count = tensor_count(w);
    real unbias1 = (real)(1 / (1 - pow(beta1, t))), unbias2 = (real)(1 / (1 - pow(beta2, t)));
    real b1 = (real)beta1, b2 = (real)beta2, e = (real)epsilon, a = (real)rate, keep = (real)(1 - rate * decay);
#pragma omp parallel for simd schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++) {
        real grad = accumulator_get(pg, i);
        real first = b1 * accumulator_get(pm, i) + (1 - b1) * grad;
        real second = b2 * accumulator_get(pv, i) + (1 - b2) * grad * grad;
        accumulator_set(pm, i, first);
        accumulator_set(pv, i, second);
        pw[i] = store(load(pw[i]) * keep - a * (first * unbias1) / (real_sqrt(second * unbias2) + e));
    }
}
