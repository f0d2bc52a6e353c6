#include "kernels/device/quantisation.h"
#include <math.h>
#include <stdbool.h>

const char *quantisation_name(enum quantisation quantisation)
{
    static const char *const names[QUANTISATION_COUNT] = {
        [QUANTISATION_NF4] = "nf4", [QUANTISATION_INT8] = "int8", [QUANTISATION_MXFP4] = "mxfp4"};
    return names[quantisation];
}

size_t quantised_words(enum quantisation quantisation, size_t count)
{
    size_t codes = codes_per_word(quantisation);
    return (count + codes - 1) / codes;
}

size_t quantised_scale_words(enum quantisation quantisation, size_t count)
{
    size_t weights = weights_per_scale_word(quantisation);
    return (count + weights - 1) / weights;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static double largest_magnitude(const double *values, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        double magnitude = fabs(values[i]);
        largest = magnitude > largest || isnan(magnitude) ? magnitude : largest;
    }
    return largest;
}

// The code of the nearest level, the lower one on ties.
static uint32_t nf4_code(double x)
{
    uint32_t code = 0;
    while (code + 1 < FOUR_BIT_LEVELS && x > ((double)nf4_level(code) + (double)nf4_level(code + 1)) / 2)
        code++;
    return code;
}

static uint32_t int8_code(double x)
{
    double nearest = nearbyint(fmax(-127, fmin(127, x)));
    return (uint8_t)(int8_t)nearest;
}

// The code of the nearest level, the one with an even code on ties; beyond the last it is that.
static uint32_t mxfp4_code(double x)
{
    uint32_t code = 0, most = FOUR_BIT_LEVELS / 2 - 1;
    for (bool above = true; above && code < most; code += above) {
        double middle = ((double)mxfp4_level(code) + (double)mxfp4_level(code + 1)) / 2;
        above = fabs(x) > middle || (fabs(x) == middle && code % 2);
    }
    return code | (x < 0 ? FOUR_BIT_LEVELS / 2 : 0);
}

// A block's scale in bits: of an f32, or its exponent.
static uint32_t scale_bits(enum quantisation quantisation, double largest)
{
    if (quantisation == QUANTISATION_MXFP4) {
        int exponent = largest > 0 ? ilogb(largest) - 2 + 127 : 0;
        return !isfinite(largest) || exponent > 254 ? 255 : exponent < 0 ? 0 : (uint32_t)exponent;
    }
    float scale = (float)(largest / (quantisation == QUANTISATION_NF4 ? 1 : 127));
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    return bits;
}

static uint32_t code_of(enum quantisation quantisation, double x)
{
    return quantisation == QUANTISATION_NF4    ? nf4_code(x)
           : quantisation == QUANTISATION_INT8 ? int8_code(x)
                                               : mxfp4_code(x);
}

// A word of scales and the words of codes of its weights, from `first` to `end`.
static void quantise_part(enum quantisation quantisation, const double *values, size_t first, size_t end,
                          uint32_t *words, uint32_t *scales)
{
    size_t codes = codes_per_word(quantisation), bits = 32 / codes, block = quantisation_block(quantisation);
    uint32_t *scale_word = &scales[first / weights_per_scale_word(quantisation)];
    *scale_word = 0;
    for (size_t at = first; at < end; at += block) {
        double largest = largest_magnitude(values + at, smaller(block, end - at));
        *scale_word |= scale_bits(quantisation, largest) << 8 * ((at - first) / block);
    }
    for (size_t begin = first; begin < end; begin += codes) {
        float scale = quantised_scale(quantisation, scales, begin);
        uint32_t word = 0;
        for (size_t i = begin; i < end && i < begin + codes; i++)
            word |= code_of(quantisation, scale > 0 ? values[i] / (double)scale : 0) << bits * (i - begin);
        words[begin / codes] = word;
    }
}

void quantise(enum quantisation quantisation, const double *values, size_t count, uint32_t *words, uint32_t *scales)
{
    size_t part = weights_per_scale_word(quantisation);
#pragma omp parallel for schedule(static)
    for (size_t first = 0; first < count; first += part)
        quantise_part(quantisation, values, first, first + smaller(part, count - first), words, scales);
}

void dequantise(enum quantisation quantisation, const uint32_t *words, const uint32_t *scales, size_t count,
                enum dtype rounding, double *values)
{
    size_t codes = codes_per_word(quantisation);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++) {
        float level = quantised_level(quantisation, words[i / codes], i % codes);
        values[i] = dtype_round((double)(quantised_scale(quantisation, scales, i) * level), rounding);
    }
}
