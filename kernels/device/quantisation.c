#include "kernels/device/quantisation.h"
#include <math.h>

const char *quantisation_name(enum quantisation quantisation)
{
    static const char *const names[QUANTISATION_COUNT] = {[QUANTISATION_NF4] = "nf4", [QUANTISATION_INT8] = "int8"};
    return names[quantisation];
}

size_t quantised_words(enum quantisation quantisation, size_t count)
{
    size_t codes = codes_per_word(quantisation);
    return (count + codes - 1) / codes;
}

size_t quantised_blocks(size_t count)
{
    return (count + QUANTISATION_BLOCK - 1) / QUANTISATION_BLOCK;
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
    while (code + 1 < NF4_LEVELS && x > ((double)nf4_level(code) + (double)nf4_level(code + 1)) / 2)
        code++;
    return code;
}

static uint32_t int8_code(double x)
{
    double nearest = nearbyint(fmax(-127, fmin(127, x)));
    return (uint8_t)(int8_t)nearest;
}

void quantise(enum quantisation quantisation, const double *values, size_t count, uint32_t *words, float *scales)
{
    bool nf4 = quantisation == QUANTISATION_NF4;
    size_t codes = codes_per_word(quantisation), bits = 32 / codes;
#pragma omp parallel for schedule(static)
    for (size_t first = 0; first < count; first += QUANTISATION_BLOCK) {
        size_t end = first + smaller(QUANTISATION_BLOCK, count - first);
        float scale = (float)(largest_magnitude(values + first, end - first) / (nf4 ? 1 : 127));
        scales[first / QUANTISATION_BLOCK] = scale;
        for (size_t begin = first; begin < end; begin += codes) {
            uint32_t word = 0;
            for (size_t i = begin; i < end && i < begin + codes; i++) {
                double x = scale > 0 ? values[i] / (double)scale : 0;
                word |= (nf4 ? nf4_code(x) : int8_code(x)) << bits * (i - begin);
            }
            words[begin / codes] = word;
        }
    }
}

void dequantise(enum quantisation quantisation, const uint32_t *words, const float *scales, size_t count,
                enum dtype rounding, double *values)
{
    size_t codes = codes_per_word(quantisation);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++) {
        float level = quantised_level(quantisation, words[i / codes], i % codes);
        values[i] = dtype_round((double)(scales[i / QUANTISATION_BLOCK] * level), rounding);
    }
}
