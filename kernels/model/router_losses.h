// Router losses: what a mixture of experts adds to the objective of a step, and the rule that moves the biases of
// choices. Sums go over tokens, as often as a batch repeats them, M in all of the step; those of a micro-batch's
// tokens, over all replicas, have f of their own and count as their share of M.
//     global    aux E sum_e f_e P_e, f and P over all layers with experts and tokens; p the softmax of all logits
//               (transformers, load_balancing_loss_func)
//     layer     aux E / k sum_e f_e P_e of each layer, added (Fedus et al. 2021, arXiv 2101.03961, equation 4;
//               Megatron-Core); p the scores, of sigmoids over their sum
//     sequence  the same of each layer and sequence, the mean over sequences, by their tokens (DeepSeek-V3, arXiv
//               2412.19437, equation 17)
//     z         z times the mean of logsumexp(logits)^2, of each layer, added (Zoph et al. 2022, arXiv 2202.08906)
// f_e is the number of tokens that chose expert e over the number of tokens, P_e the mean of p_e. f has no
// gradient, and is counted where a token is first seen: every schedule of the same step has the same gradient.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum router_loss { ROUTER_LOSS_GLOBAL, ROUTER_LOSS_LAYER, ROUTER_LOSS_SEQUENCE };
extern const char *const router_loss_names[]; // ending in NULL
// f of the step's tokens, or of a cell's alone: the error of chunks that each add a loss of their own.
enum router_counts { ROUTER_COUNTS_STEP, ROUTER_COUNTS_CELL };
extern const char *const router_counts_names[]; // ending in NULL
struct router_losses {
    double aux, z; // coefficients; 0: there is no such loss
    enum router_loss form;
    enum router_counts counts;
    double bias_update; // after an update a bias grows by this times the sign of (mean count - count); 0: never
};
static inline bool router_losses_any(const struct router_losses *losses)
{
    return losses->aux > 0 || losses->z > 0;
}
