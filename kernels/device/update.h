// Update: the weight updates of optimizers; the same source on every device.
#pragma once
#include "kernels/base/random.h"
#include "kernels/device/tensor.h"
#include <stdbool.h>

// Rounding of new weights and sums to bf16; wider dtypes are not rounded. Stochastic: to either neighbour, with
// probabilities that preserve the mean, by 16 random bits; number i uses those of element first + i / 8.
struct bf16_rounding {
    bool stochastic;
    struct random random;
    uint64_t first;
};

// Forms of Adam, which differ in decay and epsilon:
//     ADAM_TORCH         w = (1 - rate decay) w - rate m' / (sqrt(v') + epsilon),  m' = m / (1 - beta1^t),
//                        v' = v / (1 - beta2^t)          (torch.optim.AdamW; Loshchilov & Hutter 2019, algorithm 2)
//     ADAM_HF            w = (1 - rate decay) (w - rate sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon))
//                        (transformers.AdamW, GaLore's)
//     ADAM_BITSANDBYTES  as ADAM_HF with sqrt(1 - beta2^t) epsilon
enum adam_form { ADAM_TORCH, ADAM_HF, ADAM_BITSANDBYTES };

struct adam_step {
    double rate, beta1, beta2, epsilon, decay;
    size_t t; // from 1 on
    enum adam_form form;
    struct bf16_rounding rounding;
    bool begins; // initialises the master from w
};

// 8-bit moments (kernels/device/dynamic_map.h): four codes per word, lowest bits first, and the largest magnitude
// per block of 256. m uses the signed map, v the unsigned one.
struct coded_moments {
    struct tensor m, v;             // [words, 1] i32
    struct tensor m_scale, v_scale; // [blocks, 1] f32
};

struct sgd_step {
    double rate, momentum, decay;
    bool decoupled; // decay is no part of the gradient
    struct bf16_rounding rounding;
    bool begins; // as above
};

// w = (before w - rate (unbias1 m) / (sqrt(unbias2 v) + epsilon)) after
struct adam_factors {
    double unbias1, unbias2, epsilon, rate, before, after;
};
static inline struct adam_factors adam_factors(const struct adam_step *step)
{
    double rest1 = 1 - pow(step->beta1, (double)step->t), rest2 = 1 - pow(step->beta2, (double)step->t);
    double keep = 1 - step->rate * step->decay;
    struct adam_factors torch = {1 / rest1, 1 / rest2, step->epsilon, step->rate, keep, 1};
    struct adam_factors hf = {1, 1, step->epsilon, step->rate * sqrt(rest2) / rest1, 1, keep};
    if (step->form == ADAM_BITSANDBYTES)
        hf.epsilon *= sqrt(rest2);
    return step->form == ADAM_TORCH ? torch : hf;
}

// 16 random bits for each of the eight numbers of a group.
struct rounding_bits {
    uint64_t words[2];
};
HOST_DEVICE static inline struct rounding_bits rounding_bits(const struct bf16_rounding *rounding, uint64_t group)
{
    struct rounding_bits bits = {{0, 0}};
    random_words(&rounding->random, rounding->first + group, bits.words);
    return bits;
}

// Rounds number i of its group to a bf16 neighbour, returned as a float. Infinities and NaN stay.
HOST_DEVICE static inline float stochastic_bf16(float value, const struct rounding_bits *random, size_t i)
{
    uint64_t word = i < 4 ? random->words[0] : random->words[1]; // an index would put them into a card's memory
    uint32_t bits, more = (uint32_t)(word >> i % 4 * 16) & 0xffff;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000)
        bits = (bits + more) & 0xffff0000;
    memcpy(&value, &bits, sizeof value);
    return value;
}
