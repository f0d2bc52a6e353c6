#include "kernels/base/random.h"
#include <math.h>
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

void philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
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

struct random random_named(uint64_t seed, const char *name)
{
    uint64_t stream = XXH3_64bits(name, strlen(name));
    return (struct random){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                           .stream = {(uint32_t)stream, (uint32_t)(stream >> 32)}};
}

// Two 64-bit words of element `index`.
static void block(const struct random *random, uint64_t index, uint64_t words[2])
{
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), random->stream[0], random->stream[1]};
    uint32_t out[4];
    philox(out, counter, random->key);
    words[0] = out[0] | (uint64_t)out[1] << 32;
    words[1] = out[2] | (uint64_t)out[3] << 32;
}

uint64_t random_bits(const struct random *random, uint64_t index)
{
    uint64_t words[2];
    block(random, index, words);
    return words[0];
}

double random_uniform(const struct random *random, uint64_t index)
{
    return (random_bits(random, index) >> 11) * 0x1p-53;
}

double random_normal(const struct random *random, uint64_t index)
{
    uint64_t words[2];
    block(random, index, words);
    double u = ((words[0] >> 11) + 1) * 0x1p-53; // (0, 1]: its logarithm is finite
    double v = (words[1] >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

uint64_t random_below(const struct random *random, uint64_t index, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)random_bits(random, index) * bound) >> 64);
}
