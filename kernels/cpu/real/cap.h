// Soft cap of a number: y = cap tanh(x / cap), dy / dx = 1 - (y / cap)^2. Cap 0: y = x. Loops are inlined with a
// constant 0 for that, and then have no tanh.
#pragma once
#include "kernels/cpu/real/real.h"

#if REAL_BITS == 64
#define real_tanh tanh
#else
// Within 3 ulp: by exp(-2 |x|), and near 0, where that cancels, by the polynomial of Cephes' tanhf (Moshier 1992).
// Without branches, so that loops are vectorised.
static inline float real_tanh(float x)
{
    float square = x * x, e = expf(-2 * fabsf(x)), far = copysignf((1 - e) / (1 + e), x);
    float p = 2.06390887954e-2f - 5.70498872745e-3f * square;
    p = 1.33314422036e-1f + square * (p * square - 5.37397155531e-2f);
    float near = x + x * square * (square * p - 3.33332819422e-1f);
    return fabsf(x) < 0.625f ? near : far;
}
#endif

static inline real capped(real x, real cap)
{
    return cap > 0 ? cap * real_tanh(x / cap) : x;
}

// dy / dx at y.
static inline real cap_slope(real y, real cap)
{
    return cap > 0 ? (1 - y / cap) * (1 + y / cap) : 1;
}
