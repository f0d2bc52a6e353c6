// Quantisation: frozen weights in few bits. Each block of weights in row-major order (a matrix's last may be
// shorter) has a scale; a weight is scale * level(code), multiplied in f32 and rounded once to its dtype: the same
// source and bits on every device.
#pragma once
#include "kernels/base/dtype.h"
#include "kernels/base/host_device.h"
#include <string.h>

// NF4: quantiles of a normal distribution, scale: the largest magnitude. Dettmers et al. 2023, arXiv 2305.14314,
// section 3 and appendix E. int8: multiples of scale, the largest magnitude / 127, up to 127. MXFP4: E2M1 numbers
// and a power of two, the largest magnitude's over 4 (Open Compute Project, Microscaling Formats 1.0, section 6.3);
// what is of that form, as gpt-oss's experts, is kept exactly.
enum quantisation {
    QUANTISATION_NONE,
    QUANTISATION_NF4,
    QUANTISATION_INT8,
    QUANTISATION_MXFP4,
    QUANTISATION_COUNT
};

#define QUANTISATION_WHOLE 128 // weights whose codes and scales are whole words
#define FOUR_BIT_LEVELS    16

// Codes of 4 bits, or of int8 (8 bits, two's complement), in a 32-bit word, the first in its lowest bits.
HOST_DEVICE static inline size_t codes_per_word(enum quantisation quantisation)
{
    return quantisation == QUANTISATION_INT8 ? 4 : 8;
}

// Weights that share a scale.
HOST_DEVICE static inline size_t quantisation_block(enum quantisation quantisation)
{
    return quantisation == QUANTISATION_MXFP4 ? 32 : 64;
}

// Weights whose scales are in one 32-bit word: an f32, or four exponents with a bias of 127, the first in its
// lowest bits; 255: not a number.
HOST_DEVICE static inline size_t weights_per_scale_word(enum quantisation quantisation)
{
    return quantisation == QUANTISATION_MXFP4 ? 128 : 64;
}

// The scale of weight i.
HOST_DEVICE static inline float quantised_scale(enum quantisation quantisation, const uint32_t *scales, size_t i)
{
    uint32_t bits = scales[i / weights_per_scale_word(quantisation)];
    float scale;
    if (quantisation == QUANTISATION_MXFP4) {
        uint32_t exponent = bits >> i / 32 % 4 * 8 & 255;
        bits = exponent == 255 ? 0x7fc00000 : exponent ? exponent << 23 : 0x00400000;
    }
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

HOST_DEVICE static inline float nf4_level(unsigned code)
{
    static const float levels[FOUR_BIT_LEVELS] = {
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

HOST_DEVICE static inline float mxfp4_level(unsigned code)
{
    static const float levels[FOUR_BIT_LEVELS / 2] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float level = levels[code & 7];
    return code & 8 ? -level : level;
}

// Level of code i in a word.
HOST_DEVICE static inline float quantised_level(enum quantisation quantisation, uint32_t word, size_t i)
{
    return quantisation == QUANTISATION_INT8  ? (float)(int8_t)(word >> 8 * i & 0xff)
           : quantisation == QUANTISATION_NF4 ? nf4_level(word >> 4 * i)
                                              : mxfp4_level(word >> 4 * i);
}

// "nf4", "int8", "mxfp4"; NULL: none.
const char *quantisation_name(enum quantisation quantisation);
// Words of codes and of scales of `count` weights.
size_t quantised_words(enum quantisation quantisation, size_t count);
size_t quantised_scale_words(enum quantisation quantisation, size_t count);
// Computes scales and nearest codes; unused bits of the last words are 0. A NaN makes its whole block NaN.
void quantise(enum quantisation quantisation, const double *values, size_t count, uint32_t *words,
              uint32_t *scales);
// The quantised values, rounded to `rounding`.
void dequantise(enum quantisation quantisation, const uint32_t *words, const uint32_t *scales, size_t count,
                enum dtype rounding, double *values);
