// Random numbers without state: Philox 4x32-10 (Salmon et al., SC 2011), keyed by a seed and a name. A value
// depends only on its tensor's name, the seed and the element, on every device and thread.
// Functions shared with cards use only operations with exact IEEE 754 rounding: integers, +, -, *, /, sqrt and fma.
// Products are added only by explicit fma, so that no compiler can contract a * b + c: the bits are the same for
// every compiler, flags and processor.
#pragma once
#include "kernels/base/host_device.h"
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct random {
    uint32_t key[2];
    uint32_t stream[2];
};

struct random random_named(uint64_t seed, const char *name);
// 64 random bits for element `index`.
uint64_t random_bits(const struct random *random, uint64_t index);
// Uniform in [0, 1), 53 bits.
double random_uniform(const struct random *random, uint64_t index);
// Uniform integer in [0, bound), with negligible bias (64-bit multiply-high). bound > 0.
uint64_t random_below(const struct random *random, uint64_t index, uint64_t bound);
// values[i] = mean + deviation * the normal number of element first + i, for i < count; vectorised.
void random_normals(const struct random *random, uint64_t first, size_t count, double mean, double deviation,
                    double *values);

// The Philox block function: four words from a counter of four words and a key of two.
HOST_DEVICE static inline void philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

// Two 64-bit words of element `index`.
HOST_DEVICE static inline void random_words(const struct random *random, uint64_t index, uint64_t words[2])
{
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), random->stream[0], random->stream[1]};
    uint32_t out[4];
    philox(out, counter, random->key);
    words[0] = out[0] | (uint64_t)out[1] << 32;
    words[1] = out[2] | (uint64_t)out[3] << 32;
}

HOST_DEVICE static inline uint64_t double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

HOST_DEVICE static inline double double_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// x * 2^-53, exact for x <= 2^53. The halves of x become mantissas of 2^84 and 2^52, because vector units lack a
// conversion of 64-bit integers.
HOST_DEVICE static inline double fraction(uint64_t x)
{
    double high = double_from_bits(x >> 32 | 0x4530000000000000u) - (0x1p84 + 0x1p52);
    return (high + double_from_bits((x & 0xffffffffu) | 0x4330000000000000u)) * 0x1p-53;
}

// ln x for a normal x > 0, within an ulp: x = 2^e (1 + f), s = f / (2 + f), ln(1 + f) = 2 artanh(s), whose series
// is the minimax polynomial of FreeBSD's e_log.c.
HOST_DEVICE static inline double normal_log(double x)
{
    const uint64_t half_root = 0x3fe6a09e00000000u; // sqrt(1/2): 1 + f is in [sqrt(1/2), sqrt(2))
    uint64_t bits = double_bits(x) + (0x3ff0000000000000u - half_root);
    double e = double_from_bits(bits >> 52 | 0x4330000000000000u) - (0x1p52 + 1023);
    double f = double_from_bits((bits & 0xfffffffffffffu) + half_root) - 1;
    double s = f / (2 + f), z = s * s, series = 1.479819860511658591e-01;
    series = fma(series, z, 1.531383769920937332e-01);
    series = fma(series, z, 1.818357216161805012e-01);
    series = fma(series, z, 2.222219843214978396e-01);
    series = fma(series, z, 2.857142874366239149e-01);
    series = fma(series, z, 3.999999999940941908e-01);
    series = fma(series, z, 6.666666666666735130e-01);
    double half_f = 0.5 * f, high = 6.93147180369123816490e-01, low = 1.90821492927058770002e-10; // ln 2
    double rest = fma(-half_f, f, fma(e, low, s * fma(half_f, f, z * series)));
    return fma(e, high, rest + f);
}

// cos x for x in [0, 2 pi], within an ulp of the double x: x = quarter * pi / 2 + r, |r| <= pi / 4, and the minimax
// polynomials of FreeBSD's k_cos.c and k_sin.c.
HOST_DEVICE static inline double normal_cos(double x)
{
    double shifted = fma(x, 6.36619772367581382433e-01, 0x1.8p52), quarter = shifted - 0x1.8p52;
    double r = fma(-quarter, 6.12323399573676603587e-17, fma(-quarter, 1.57079632679489655800, x));
    uint64_t turn = double_bits(shifted);
    double z = r * r, even = -1.13596475577881948265e-11, odd = 1.58969099521155010221e-10;
    even = fma(even, z, 2.08757232129817482790e-09);
    even = fma(even, z, -2.75573143513906633035e-07);
    even = fma(even, z, 2.48015872894767294178e-05);
    even = fma(even, z, -1.38888888888741095749e-03);
    even = fma(even, z, 4.16666666666666019037e-02);
    odd = fma(odd, z, -2.50507602534068634195e-08);
    odd = fma(odd, z, 2.75573137070700676789e-06);
    odd = fma(odd, z, -1.98412698298579493134e-04);
    odd = fma(odd, z, 8.33333333332248946124e-03);
    odd = fma(odd, z, -1.66666666666666324348e-01);
    double most = fma(-0.5, z, 1);
    double cosine = most + fma(z * z, even, fma(-0.5, z, 1 - most)), sine = fma(z * r, odd, r);
    uint64_t odd_turn = -(turn & 1); // selected by bits, because compilers do not vectorise a branch with AVX2
    double value = double_from_bits((double_bits(sine) & odd_turn) | (double_bits(cosine) & ~odd_turn));
    return double_from_bits(double_bits(value) ^ ((turn + 1) & 2) << 62);
}

// Standard normal number from two words (Box & Muller 1958).
HOST_DEVICE static inline double normal_of(const uint64_t words[2])
{
    double u = fraction((words[0] >> 11) + 1); // (0, 1]: its logarithm is finite
    double v = fraction(words[1] >> 11);
    return sqrt(-2 * normal_log(u)) * normal_cos(6.28318530717958647693 * v);
}

// Standard normal.
HOST_DEVICE static inline double random_normal(const struct random *random, uint64_t index)
{
    uint64_t words[2];
    random_words(random, index, words);
    return normal_of(words);
}
