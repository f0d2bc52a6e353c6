// Random numbers without state: Philox 4x32-10 (Salmon et al., SC 2011), keyed by a seed and a name, so that a
// tensor's values depend on nothing but its name, the seed and the element, on every device and thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct random {
    uint32_t key[2];
    uint32_t stream[2];
};

struct random random_named(uint64_t seed, const char *name);
// 64 random bits for element `index`.
uint64_t random_bits(const struct random *random, uint64_t index);
// Uniform in [0, 1), 53 bits.
double random_uniform(const struct random *random, uint64_t index);
// Standard normal (Box-Muller).
double random_normal(const struct random *random, uint64_t index);
// Uniform integer in [0, bound), without modulo bias worth speaking of (64-bit multiply-high). bound > 0.
uint64_t random_below(const struct random *random, uint64_t index, uint64_t bound);
// The Philox block function: four words from a counter of four words and a key of two.
void philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);
