#include "kernels/model/lora.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const lora_target_names[LORA_TARGETS] = {"q",
                                                     "k",
                                                     "v",
                                                     "o",
                                                     "gate",
                                                     "up",
                                                     "down",
                                                     "qkv",
                                                     "gate_up",
                                                     "embed",
                                                     "head",
                                                     "in_proj_qkv",
                                                     "in_proj_z",
                                                     "in_proj_b",
                                                     "in_proj_a",
                                                     "out_proj",
                                                     "q_a",
                                                     "q_b",
                                                     "kv_a",
                                                     "kv_b",
                                                     "g",
                                                     "b",
                                                     "a",
                                                     "router",
                                                     "shared_expert_gate",
                                                     "experts_gate_up",
                                                     "experts_down"};

const char *lora_module_leaf(size_t target)
{
    static const char *const leaves[LORA_TARGETS] = {"q_proj",
                                                     "k_proj",
                                                     "v_proj",
                                                     "o_proj",
                                                     "gate_proj",
                                                     "up_proj",
                                                     "down_proj",
                                                     "qkv_proj",
                                                     "gate_up_proj",
                                                     "embed_tokens",
                                                     "lm_head",
                                                     "in_proj_qkv",
                                                     "in_proj_z",
                                                     "in_proj_b",
                                                     "in_proj_a",
                                                     "out_proj",
                                                     "q_a_proj",
                                                     "q_b_proj",
                                                     "kv_a_proj_with_mqa",
                                                     "kv_b_proj",
                                                     "g_proj",
                                                     "b_proj",
                                                     "a_proj",
                                                     "gate.weight",
                                                     "shared_expert_gate",
                                                     "experts.gate_up_proj",
                                                     "experts.down_proj"};
    return leaves[target];
}

struct lora_factors lora_factors_of(const struct lora *lora, size_t layer, unsigned target)
{
    size_t row = target & (LORA_EMBEDDING | LORA_HEAD) ? 0 : layer, i = 0;
    if (!lora->rank || !(lora->targets & target))
        return (struct lora_factors){0};
    while (!(target >> i & 1))
        i++;
    return lora->table ? lora->table[row * LORA_TARGETS + i] : (struct lora_factors){lora->rank, lora->alpha};
}

double lora_scale(const struct lora *lora, struct lora_factors factors)
{
    return factors.alpha / (lora->rslora ? sqrt((double)factors.rank) : (double)factors.rank);
}

// As PEFT has it: of the module itself or of one that it is in, the name ends so.
bool lora_saves(const struct lora *lora, const char *parameter)
{
    for (char *const *saved = lora->saved; saved && *saved; saved++) {
        size_t bytes = strlen(*saved);
        for (const char *dot = strchr(parameter, '.'); dot; dot = strchr(dot + 1, '.')) {
            size_t module = (size_t)(dot - parameter);
            if (module >= bytes && memcmp(dot - bytes, *saved, bytes) == 0)
                return true;
        }
    }
    return false;
}

void lora_free(struct lora *lora)
{
    for (char **saved = lora->saved; saved && *saved; saved++)
        free(*saved);
    free(lora->saved);
    free(lora->table);
    *lora = (struct lora){0};
}
