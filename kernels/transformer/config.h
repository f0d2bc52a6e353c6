// Config: the shape of a decoder, where its norms stand and what is scaled, and the presets with their public
// shapes.
#pragma once
#include "kernels/base/device.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// RoPE scaling: with factor alone "linear", every wavelength is stretched; else those that turn less often than
// low_freq_factor times in the original context are, and of those up to high_freq_factor times a part: "llama3"
// (Llama 3.1 and later), or, with an attention_factor that queries and keys are multiplied by, "yarn" (Peng et al.
// 2023, arXiv 2309.00071), in which the two are beta_slow and beta_fast. factor 0: none.
struct rope_scaling {
    double factor, low_freq_factor, high_freq_factor;
    size_t original_context;
    double attention_factor; // of yarn; 0: none
};

// Of so many layers, the first, each may see all keys where the others have a window.
#define CONFIG_FULL_LAYERS 256

// Where the norms of a layer's two blocks, attention and MLP, stand: before what a block reads; after what it
// makes, before that is added (OLMo 2); or both (Gemma 3).
enum norms { NORMS_BEFORE, NORMS_AFTER, NORMS_AROUND };
extern const char *const norms_names[];      // ending in NULL
extern const char *const activation_names[]; // of enum activation

struct config {
    char name[64];
    size_t layers, width, heads, kv_heads, head_dim, ffn, vocab;
    double rope_theta, norm_epsilon;
    struct rope_scaling rope_scaling;
    bool tied;          // the head is the embedding table
    // Whether row `pad` of the embedding takes no gradient from tokens with that id (padding_idx of
    // torch.nn.Embedding); a tied head gives it one all the same.
    bool padded;
    size_t pad; // below vocab; 0 unless padded
    bool qkv_bias;      // Qwen2
    bool qk_norm;       // Qwen3: RMSNorm over head_dim of q and k, before RoPE
    bool whole_qk_norm; // OLMo 2: of these two, over all heads at once
    bool unit_offset;   // Gemma: a norm's gain is 1 + its weight
    bool fused;         // Phi-3: files keep q, k, v in one matrix and gate, up in one, and so do adapters
    enum norms norms;
    enum activation activation; // of the MLP's gate
    // What queries and embeddings are multiplied by; 0: 1. Attention's own scale is 1 / sqrt(head_dim).
    double query_scale, embedding_scale;
    double local_rope_theta; // of layers with a window, which then have no scaling; 0: all have rope_theta
    size_t max_context;      // what the model was made for; not a limit here
    // A query sees this many keys, the last its own; 0: all before it. Not in the layers whose bit is set, of the
    // first ones: bit l % 64 of number l / 64.
    size_t sliding_window;
    uint64_t full_layers[CONFIG_FULL_LAYERS / 64];
};

// The modules that LoRA can be put on, as bits: a layer's projections; those that a family's files fuse (Phi-3),
// whose parts share one A; and the embedding and the head.
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
    LORA_HEAD = 1024
};
#define LORA_TARGETS     11
#define LORA_PROJECTIONS 7 // the first of them, which every family's layers have
#define LORA_FUSED_PARTS (LORA_Q | LORA_K | LORA_V | LORA_GATE | LORA_UP)
extern const char *const lora_target_names[LORA_TARGETS];   // "q", "k" ... "embed", "head"
extern const char *const lora_target_modules[LORA_TARGETS]; // "self_attn.q_proj" ... "embed_tokens", "lm_head"

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
// What B A is multiplied by.
double lora_scale(const struct lora *lora, struct lora_factors factors);
// Whether the parameter of this name ("model.norm.weight") is of a module that is saved whole.
bool lora_saves(const struct lora *lora, const char *parameter);
// Frees the table and the names.
void lora_free(struct lora *lora);

// Array of presets, ending with an empty name.
extern const struct config config_presets[];
// Names of the Hugging Face hub for presets, ending with a NULL name.
extern const struct config_alias {
    const char *hub_name, *preset;
} config_aliases[];
// The preset of this name, its own or the hub's, in whatever case; NULL: there is none.
const struct config *config_preset(const char *name);
// Checks that the numbers fit together (heads a multiple of kv_heads, even head_dim, nothing 0 ...). False and a
// status that names the field if not.
bool config_check(const struct config *config, struct status *status);
// A layer is to have no window. False where it is none of the first.
bool config_set_full(struct config *config, size_t layer);
// The window of a layer; 0: none.
size_t config_window(const struct config *config, size_t layer);
// Number of weights.
size_t config_parameters(const struct config *config);
// RoPE's angular frequencies, scaling applied: head_dim / 2 values. local: of layers with a window.
void config_rope_frequencies(const struct config *config, bool local, double *frequencies);
// What rotated queries and keys are multiplied by, likewise: 1 but for yarn.
double config_rope_gain(const struct config *config, bool local);
// YaRN's own choice of it for a factor: 0.1 ln(factor) + 1.
double config_yarn_gain(double factor);
// Whether a layer has the local ones.
bool config_rope_is_local(const struct config *config, size_t layer);
