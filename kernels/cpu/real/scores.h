// Scores: attention's work on a row of S between its products. A row has `count` columns, a multiple of TILE_LANES,
// each with its own maximum, sum, logsumexp and delta. An exp that would nearly underflow is zero. In bf16, P and
// dS are rounded, to nearest even, as factors of products; sums of P, and dS, use the unrounded P (as
// FlashAttention-2, Dao 2023, arXiv 2307.08691, and cuDNN).
#pragma once
#include "kernels/cpu/real/cap.h"
#include "kernels/cpu/real/tile.h"

// s = cap tanh(scale s / cap), before it is masked.
static inline void cap_row(real *s, real scale, real cap, size_t count)
{
#pragma omp simd
    for (size_t c = 0; c < count; c++)
        s[c] = capped(scale * s[c], cap);
}

// Multiplies the scores' gradient by the cap's slope: ds = (ds - delta) * slope, from the capped s. scores_row then
// multiplies by P alone.
static inline void cap_gradient_row(real *ds, const real *s, real cap, const real *delta, size_t count)
{
#pragma omp simd
    for (size_t c = 0; c < count; c++)
        ds[c] = (ds[c] - delta[c]) * cap_slope(s[c], cap);
}

#if REAL_BITS == 64
#define EXP_LOWEST (-707.0)
#define EXP_ZERO   1e-307 // a little more than exp(EXP_LOWEST)

// x = exp(scale * x - shift), for scale * x <= shift. Two loops keep the vector function on its fast path.
static inline void exp_row(real *x, real scale, const real *shift, size_t count)
{
#pragma omp simd
    for (size_t c = 0; c < count; c++)
        x[c] = scale * x[c] - shift[c] < EXP_LOWEST ? EXP_LOWEST : scale * x[c] - shift[c];
#pragma omp simd
    for (size_t c = 0; c < count; c++) {
        real e = real_exp(x[c]);
        x[c] = e <= EXP_ZERO ? 0 : e;
    }
}

// x = exp(scale * x - maximum); sum += x.
static inline void exp_sum_row(real *x, real scale, const real *maximum, real *sum, size_t count)
{
    exp_row(x, scale, maximum, count);
#pragma omp simd
    for (size_t c = 0; c < count; c++)
        sum[c] += x[c];
}

// p = exp(scale * p - logsumexp); ds = p * (ds - delta).
static inline void scores_row(real *p, real scale, real *ds, const real *logsumexp, const real *delta, size_t count)
{
    exp_row(p, scale, logsumexp, count);
#pragma omp simd
    for (size_t c = 0; c < count; c++)
        ds[c] = p[c] * (ds[c] - delta[c]);
}
#else
#define EXP_LOWEST (-86.0f)

// exp(x) for x <= 0, within 1.02 ulp: 2^n exp(r) with n = round(x / ln 2), |r| <= ln 2 / 2, and exp(r) = 1 + r +
// r^2 p(r), p minimax (Cody & Waite 1980, chapter 6). The vector library would need a call per vector, and separate
// passes for bounds and sums.
static inline vector exp_vector(vector x)
{
    const float round = 0x1.8p23f; // adding it rounds to an integer in the lowest bits
    vector shifted = x * 0x1.715476p0f + round, n = shifted - round;
    vector r = x - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;
    vector p = 0x1.5558bp-5f + r * (0x1.12398ep-7f + r * 0x1.6a4d6p-10f);
    p = 1 + (r + r * r * (0x1.fffffcp-2f + r * (0x1.555492p-3f + r * p)));
    return (vector)(((vector_bits)p + ((vector_bits)shifted << 23)) & ~(vector_bits)(x < EXP_LOWEST));
}

// scale * x, rounded on its own: fused into the subtraction, the largest element would not give 0.
static inline vector scaled(vector x, real scale)
{
    vector product = scale * x;
#if REAL_BITS == 16 // for f32 inputs scale is 1
#if defined(__x86_64__)
    __asm__("" : "+v"(product));
#else
    __asm__("" : "+m"(product));
#endif
#endif
    return product;
}

// Rounds a factor of a product: to bf16, to nearest even, on bf16 devices. NaN stays NaN.
static inline vector rounded(vector x)
{
#if REAL_BITS == 16
    vector_bits bits = (vector_bits)x, is_number = (vector_bits)(x == x);
    vector_bits nearest = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    return (vector)((nearest & is_number) | (bits & ~is_number));
#else
    return x;
#endif
}

static inline void exp_row(real *x, real scale, const real *shift, size_t count)
{
    for (size_t c = 0; c < count; c += TILE_LANES)
        *vector_at(x + c) = exp_vector(scaled(*vector_at(x + c), scale) - *vector_at(shift + c));
}

static inline void exp_sum_row(real *x, real scale, const real *maximum, real *sum, size_t count)
{
    for (size_t c = 0; c < count; c += TILE_LANES) {
        vector e = exp_vector(scaled(*vector_at(x + c), scale) - *vector_at(maximum + c));
        *vector_at(x + c) = rounded(e);
        *vector_at(sum + c) += e;
    }
}

static inline void scores_row(real *p, real scale, real *ds, const real *logsumexp, const real *delta, size_t count)
{
    for (size_t c = 0; c < count; c += TILE_LANES) {
        vector e = exp_vector(scaled(*vector_at(p + c), scale) - *vector_at(logsumexp + c));
        *vector_at(p + c) = rounded(e);
        *vector_at(ds + c) = rounded(e * (*vector_at(ds + c) - *vector_at(delta + c)));
    }
}
#endif
