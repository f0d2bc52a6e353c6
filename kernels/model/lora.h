// LoRA: which of a decoder's modules have low-rank factors beside their weights, and which train whole beside those
// (Hu et al. 2021, arXiv 2106.09685).
#pragma once
#include "kernels/model/config.h"

// The modules that LoRA can be put on, as bits: a layer's projections, gate, up and down those of a dense MLP or of
// a shared expert; those that a family's files fuse (Phi-3), whose parts share one A; the embedding and the head;
// latent attention's projections; and what else a mixture of experts has. Factors of experts are each expert's own.
enum lora_target {
    LORA_Q = 1,
    LORA_K = 2,
    LORA_V = 4,
    LORA_O = 8,
    LORA_GATE = 16,
    LORA_UP = 32,
    LORA_DOWN = 64,
    LORA_QKV = 128,
    LORA_GATE_UP = 256,
    LORA_EMBEDDING = 512,
    LORA_HEAD = 1024,
    LORA_IN_QKV = 2048, // and those of Gated DeltaNet
    LORA_IN_Z = 4096,
    LORA_IN_B = 8192,
    LORA_IN_A = 16384,
    LORA_OUT = 32768,
    LORA_Q_A = 65536, // and of latent attention
    LORA_Q_B = 131072,
    LORA_KV_A = 262144,
    LORA_KV_B = 524288,
    LORA_G_PROJ = 1048576, // and of Gated DeltaNet whose projections are apart (OLMo Hybrid)
    LORA_B_PROJ = 2097152,
    LORA_A_PROJ = 4194304,
    LORA_ROUTER = 8388608, // and of a mixture of experts
    LORA_SHARED_EXPERT_GATE = 16777216,
    LORA_EXPERTS_GATE_UP = 33554432, // gate and up share their A
    LORA_EXPERTS_DOWN = 67108864
};
#define LORA_TARGETS     27
#define LORA_PARAMETERS  (LORA_ROUTER | LORA_EXPERTS_GATE_UP | LORA_EXPERTS_DOWN) // PEFT's target_parameters
#define LORA_PROJECTIONS 7 // the first of them, those of attention and of a dense MLP
#define LORA_FUSED_PARTS (LORA_Q | LORA_K | LORA_V | LORA_GATE | LORA_UP)
extern const char *const lora_target_names[LORA_TARGETS]; // "q", "k" ... "embed", "head"

// Rank and alpha of one module's factors; rank 0: it has none.
struct lora_factors {
    size_t rank;
    double alpha;
};

// y = x W^T + alpha / rank * (x A^T) B^T; everything else is frozen, but for the modules that are saved whole.
// rank 0: full training.
struct lora {
    size_t rank;
    double alpha;
    unsigned targets; // of enum lora_target; with a table the union over the layers
    bool rslora;      // alpha / sqrt(rank) instead (Kalajdzievski 2023, arXiv 2312.03732)
    // The factors of each module, [layers][LORA_TARGETS], where they are not those above in every layer; those of
    // the embedding and the head are in the first row. NULL: they are.
    struct lora_factors *table;
    // PEFT's modules_to_save, which train whole: ends of module names, ending in NULL. NULL: there are none.
    char **saved;
    bool untied; // the base's one table is two here: the embedding, and a head that begins as a copy of it
};
#define LORA_ALPHA_MIN 1e-6
#define LORA_ALPHA_MAX 1e6
// The factors of one module; target: one bit. The layer does not matter for the embedding and the head.
struct lora_factors lora_factors_of(const struct lora *lora, size_t layer, unsigned target);
// Factor of B A.
double lora_scale(const struct lora *lora, struct lora_factors factors);
// Whether the parameter of this name ("model.norm.weight") is of a module that is saved whole.
bool lora_saves(const struct lora *lora, const char *parameter);
// Frees the table and the names.
void lora_free(struct lora *lora);
// The last part of the names of a target's modules, "q_proj", or parameters, "experts.down_proj". target: a
// position in lora_target_names.
const char *lora_module_leaf(size_t target);
