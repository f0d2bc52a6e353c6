// Routing: which experts of a mixture a token takes, and with what weight (Shazeer et al. 2017; DeepSeek-V3, arXiv
// 2412.19437, section 2.1.2). An expert's score is p = softmax of the router's logits over all experts, or sigmoid.
// A token takes the experts whose score plus bias is greatest, of equal ones the first; its weights are the chosen
// scores s, without the bias: scale s / max(sum + added, least), or scale s.
#pragma once
#include "kernels/base/host_device.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum router_score { ROUTER_SOFTMAX, ROUTER_SIGMOID };
struct routing {
    size_t experts, chosen; // of all; by a token
    enum router_score score;
    bool normalised;     // weights are divided by the chosen scores' sum
    double added, least; // of that sum
    double scale;
    // Above 0: experts lie in groups of equal size, and a token chooses within the top_groups ones whose group_best
    // greatest values have the greatest sum, of equal ones the first.
    size_t groups, top_groups, group_best;
};
#define ROUTING_EXPERTS_MAX 1024
#define ROUTING_GROUPS_MAX  64

// Losses of a router. Balancing: the sum over experts of f_e P_e, times a constant, with f_e the tokens that take
// expert e and P_e the sum of their p_e, each over the number of tokens. p is the softmax of the logits, or the
// scores over their sum, which are equal where scores are a softmax; `softmax` tells. f has no gradient:
//     dz_e += u_e (a_e - sum of a p),  a_e = balance repeats counts_e / tokens,  u_e = p_e, or p_e (1 - s_e)
// The z-loss (Zoph et al. 2022, arXiv 2202.08906, equation 5), logsumexp(logits)^2:
//     dz_e += 2 z repeats logsumexp softmax_e
struct router_terms {
    double balance, z;
    bool softmax;
};
HOST_DEVICE static inline size_t router_totals(const struct routing *routing)
{
    return 2 * routing->experts + 2;
}

// Choices of a token are kept in whole words, a byte each where that numbers all experts, in rising order.
HOST_DEVICE static inline bool routing_is_wide(const struct routing *routing)
{
    return routing->experts > 256;
}
HOST_DEVICE static inline size_t routing_words(const struct routing *routing)
{
    return (routing->chosen * (routing_is_wide(routing) ? 2 : 1) + 3) / 4;
}
// Choice j of a row of such words.
HOST_DEVICE static inline size_t routing_choice(const struct routing *routing, const void *row, size_t j)
{
    const uint8_t *bytes = (const uint8_t *)row;
    return routing_is_wide(routing) ? bytes[2 * j] | (size_t)bytes[2 * j + 1] << 8 : bytes[j];
}
HOST_DEVICE static inline void routing_choose(const struct routing *routing, void *row, size_t j, size_t expert)
{
    uint8_t *bytes = (uint8_t *)row;
    if (routing_is_wide(routing)) {
        bytes[2 * j] = (uint8_t)expert;
        bytes[2 * j + 1] = (uint8_t)(expert >> 8);
    } else {
        bytes[j] = (uint8_t)expert;
    }
}
