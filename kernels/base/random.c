#include "kernels/base/random.h"
#include <xxhash.h>

struct random random_named(uint64_t seed, const char *name)
{
    uint64_t stream = XXH3_64bits(name, strlen(name));
    return (struct random){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                           .stream = {(uint32_t)stream, (uint32_t)(stream >> 32)}};
}

uint64_t random_bits(const struct random *random, uint64_t index)
{
    uint64_t words[2];
    random_words(random, index, words);
    return words[0];
}

double random_uniform(const struct random *random, uint64_t index)
{
    return fraction(random_bits(random, index) >> 11);
}

uint64_t random_below(const struct random *random, uint64_t index, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)random_bits(random, index) * bound) >> 64);
}

void random_normals(const struct random *random, uint64_t first, size_t count, double mean, double deviation,
                    double *values)
{
    const struct random copy = *random;
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        values[i] = fma(deviation, random_normal(&copy, first + i), mean);
}
