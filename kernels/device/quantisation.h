// Quantisation: frozen weights in few bits. Each block of QUANTISATION_BLOCK weights in row-major order (a matrix's
// last may be shorter) has a scale; a weight is scale * level(code), multiplied in f32 and rounded once to its
// dtype: the same source and bits on every device.
#pragma once
#include "kernels/base/dtype.h"
#include "kernels/base/host_device.h"

// NF4: quantiles of a normal distribution, scale: the largest magnitude. Dettmers et al. 2023, arXiv 2305.14314,
// section 3 and appendix E. int8: multiples of scale, the largest magnitude / 127, up to 127.
enum quantisation { QUANTISATION_NONE, QUANTISATION_NF4, QUANTISATION_INT8, QUANTISATION_COUNT };

#define QUANTISATION_BLOCK 64
#define NF4_LEVELS         16

// Codes of NF4 (4 bits) or int8 (8 bits, two's complement) in a 32-bit word, the first in its lowest bits.
HOST_DEVICE static inline size_t codes_per_word(enum quantisation quantisation)
{
    return quantisation == QUANTISATION_NF4 ? 8 : 4;
}

HOST_DEVICE static inline float nf4_level(unsigned code)
{
    static const float levels[NF4_LEVELS] = {
        -1.0f,
        -0.6961928009986877f,
        -0.5250730514526367f,
        -0.39491748809814453f,
        -0.28444138169288635f,
        -0.18477343022823334f,
        -0.09105003625154495f,
        0.0f,
        0.07958029955625534f,
        0.16093020141124725f,
        0.24611230194568634f,
        0.33791524171829224f,
        0.44070982933044434f,
        0.5626170039176941f,
        0.7229568362236023f,
        1.0f,
    };
    return levels[code & 15];
}

// Level of code i in a word.
HOST_DEVICE static inline float quantised_level(enum quantisation quantisation, uint32_t word, size_t i)
{
    return quantisation == QUANTISATION_NF4 ? nf4_level(word >> 4 * i) : (float)(int8_t)(word >> 8 * i & 0xff);
}

// "nf4", "int8"; NULL: none.
const char *quantisation_name(enum quantisation quantisation);
// Words and scales of `count` weights.
size_t quantised_words(enum quantisation quantisation, size_t count);
size_t quantised_blocks(size_t count);
// Computes scales and nearest codes; unused bits of the last word are 0. A NaN makes its whole block NaN.
void quantise(enum quantisation quantisation, const double *values, size_t count, uint32_t *words, float *scales);
// The quantised values, rounded to `rounding`.
void dequantise(enum quantisation quantisation, const uint32_t *words, const float *scales, size_t count,
                enum dtype rounding, double *values);
