// Config: the shape of a decoder, the kinds of its layers, where its norms stand and what is scaled, and the
// presets with their public shapes.
#pragma once
#include "kernels/device/device.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// RoPE scaling: with factor alone "linear", every wavelength is stretched; else those that turn less often than
// low_freq_factor times in the original context are, and of those up to high_freq_factor times a part: "llama3"
// (Llama 3.1 and later), or, with an attention_factor that queries and keys are multiplied by, "yarn" (Peng et al.
// 2023, arXiv 2309.00071), in which the two are beta_slow and beta_fast. With factors by frequency it is "longrope"
// (Ding et al. 2024, arXiv 2402.13753), whose factor is 1: struct config's short ones divide the frequencies, or
// its long ones where the longest document of a step is longer than the original context. With that and the factor
// alone it is "dynamic": theta grows with the longest document, from the original context on. factor 0: none.
struct rope_scaling {
    double factor, low_freq_factor, high_freq_factor;
    size_t original_context;
    double attention_factor; // of yarn and longrope; 0: none
    bool untruncated;        // yarn: the blend does not begin and end at whole frequencies (gpt-oss)
    bool longrope, dynamic;
};
#define LONGROPE_PAIRS 128

// Pairs of a head's numbers that RoPE turns: each with the one half of them away, or with its neighbour. NONE: the
// layer has no positions. PROPORTIONAL: halves of whole heads, of whose frequencies those beyond `rotary` are 0.
enum rope_pairs { ROPE_HALVES, ROPE_INTERLEAVED, ROPE_NONE, ROPE_PROPORTIONAL };
extern const char *const rope_names[]; // ending in NULL

// Kind of layer: its mixer and MLP, and the sizes, positions and factors of the mixer.
struct layer_kind {
    size_t mixer, mlp; // numbers in mixers[] and mlps[] (block.h)
    // In Gated DeltaNet values have `heads` heads of value_dim, queries and keys kv_heads of head_dim.
    size_t heads, kv_heads, head_dim;
    size_t value_dim; // in latent attention, too; 0: that of attention, head_dim
    size_t window;    // a query sees this many keys, the last its own; 0: all before it
    // Llama 4: documents are cut into chunks of `window` tokens, and a query sees its own chunk alone.
    bool chunked;
    enum rope_pairs rope;
    size_t rotary; // how many of a head's numbers turn, the first ones; 0: all. In latent attention the last ones,
                   // which heads share.
    double rope_theta;
    struct rope_scaling rope_scaling;
    double query_scale;                   // factor of queries; 0: 1. Attention's own scale is 1 / sqrt(head_dim).
    struct position_scale position_scale; // of queries, behind RoPE
    double cap;                           // of scores, which become cap tanh(score / cap) (Gemma 2); 0: none
    bool sinks;                           // gpt-oss: a sink of each head in the softmax, self_attn.sinks
    bool v_norm;                          // Gemma 4: RMSNorm without a gain over head_dim of values
    bool k_is_v;       // Gemma 4: values are what keys are before their norm and RoPE; there is no v_proj
    bool gated;        // Qwen3-Next: o times the sigmoid of a gate; q_proj has each head's query, then its gate
    bool norms_before; // OLMo Hybrid: the norms of these layers stand before their blocks, whatever config's do
    // Gated DeltaNet's factor of beta, which is between 0 and that (0: 1), and epsilon of its gated norm.
    double beta_scale, gate_epsilon;
    // Latent attention's widths of the latents that queries (0: none), and keys and values, are projected from; 0
    // in other layers.
    size_t q_rank, kv_rank;
};
// In the order of kernels/layers/block_kinds.c.
enum { MIXER_ATTENTION, MIXER_DELTA, MIXER_LATENT, MIXER_DELTA_SPLIT };
enum { MLP_DENSE, MLP_EXPERTS };

// Mixture of experts, the MLP of layers of MLP_EXPERTS: a router's logits, routing, the sum of the chosen experts,
// and perhaps an expert that every token takes.
struct experts {
    struct routing routing;
    size_t width;         // of an expert
    size_t shared_width;  // of the shared expert; 0: there is none
    bool shared_gated;    // its output is multiplied by the sigmoid of a projection to one number
    bool router_bias;     // of the logits (gpt-oss)
    bool correction_bias; // of the choice alone (DeepSeek-V3); it takes no gradient
    bool bias;            // of the experts' projections (gpt-oss)
    // gpt-oss: (u + 1) g / (1 + exp(-alpha g)), g at most the limit, u within it. alpha 0: the model's activation.
    double alpha, limit;
    double aux_loss; // coefficient of the balancing loss that transformers adds to a folder's loss; 0: none
};
// Sizes beyond any model are a slip of the hand, and their products would not fit a size_t.
#define CONFIG_SIZE_MAX    ((size_t)1 << 24)
#define LATENT_BLOCK       4096 // keys that latent attention projects at once by default
#define CONFIG_KINDS       5
#define CONFIG_DELTA       (CONFIG_KINDS - 1) // Gated DeltaNet's kind; those before it are attention's
#define CONFIG_KIND_LAYERS 256 // the lowest layers, which may be of any kind; those above are of kind 0

// Position of the norms of a layer's two blocks, attention and MLP: on a block's input; on its output, before the
// residual sum (OLMo 2); or on both (Gemma 3).
enum norms { NORMS_BEFORE, NORMS_AFTER, NORMS_AROUND };
extern const char *const norms_names[];      // ending in NULL
extern const char *const activation_names[]; // of enum activation
extern const char *const router_names[];     // of enum router_score

struct config {
    char name[64];
    size_t layers, width, ffn, vocab;      // ffn: of dense MLPs; may be 0 where no layer has one
    struct experts experts;                // of layers of MLP_EXPERTS
    struct layer_kind kinds[CONFIG_KINDS]; // of a uniform model the first; others need not be set
    uint8_t kind_of[CONFIG_KIND_LAYERS];   // by layer; use config_kind
    double norm_epsilon;
    bool tied; // the head is the embedding table
    // Whether row `pad` of the embedding takes no gradient from tokens with that id (padding_idx of
    // torch.nn.Embedding); a tied head gives it one all the same.
    bool padded;
    size_t pad; // below vocab; 0 unless padded
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm;       // Qwen3: RMSNorm over head_dim of q and k, before RoPE
    bool whole_qk_norm; // OLMo 2: of these two, over all heads at once
    bool unit_offset;   // Gemma: a norm's gain is 1 + its weight
    bool centred;       // Cohere: norms are LayerNorm without a bias
    bool parallel;      // Cohere: the MLP reads the norm that attention reads; both are added to the layer's input
    bool layer_scalars; // Gemma 4: a layer's output is multiplied by a number of its own, which does not train
    bool fused;         // Phi-3: files keep q, k, v in one matrix and gate, up in one, and so do adapters
    bool glm_norms;     // GLM-4: files name the norms of outputs post_self_attn_layernorm and post_mlp_layernorm
    // The module of a model of images or sound that the decoder is, "language_model", by which adapters name their
    // tensors; NULL: it is all of the model.
    const char *submodule;
    enum norms norms;
    enum activation activation; // of the MLP's gate
    // Factors of embeddings, of what a block adds, and of logits; 0: 1.
    double embedding_scale, residual_scale, logits_scale;
    double short_factors[LONGROPE_PAIRS], long_factors[LONGROPE_PAIRS]; // of kinds with longrope
    double logit_cap;                                                   // of logits, as of scores; 0: none
    size_t max_context;                                                 // max_position_embeddings; not a limit here
};
static inline const struct layer_kind *config_kind(const struct config *config, size_t layer)
{
    return &config->kinds[layer < CONFIG_KIND_LAYERS ? config->kind_of[layer] : 0];
}

// Position of a layer's norms.
static inline enum norms config_norms(const struct config *config, size_t layer)
{
    return config_kind(config, layer)->norms_before ? NORMS_BEFORE : config->norms;
}

// Array of presets, ending with an empty name.
extern const struct config config_presets[];
// Names of the Hugging Face hub for presets, ending with a NULL name.
extern const struct config_alias {
    const char *hub_name, *preset;
} config_aliases[];
// The preset of this name, its own or the hub's, in whatever case; NULL: there is none.
const struct config *config_preset(const char *name);
// Parts of config_check (block.h), for a mixer's check of its kind: a size from 1 to max; a finite number of at
// least 0, or above it; heads, positions and scores of a kind with queries and keys.
bool config_check_size(const char *name, size_t value, size_t max, struct status *status);
bool config_check_number(const char *name, double value, bool positive, struct status *status);
bool config_check_scores(const struct config *config, const struct layer_kind *kind, struct status *status);
// Whether a layer is of this kind.
bool config_has_kind(const struct config *config, size_t kind);
// The longest window of the layers that have one; 0: none has.
size_t config_max_window(const struct config *config);
// Numbers that layers with a window have of their own; 0: the others'. RoPE with a theta of its own has no scaling
// and is not proportional; heads of another length have scores of the same scale.
struct local_layers {
    double rope_theta;
    size_t kv_heads, head_dim;
};
// Gives layers of kind 0 this window and a v_proj. Layers of kind 1 are then what those of kind 0 were.
void config_add_window(struct config *config, size_t window, struct local_layers local);
// Numbers of a head that are in pairs: rotary, or all; 0 of ROPE_NONE.
size_t rope_rotary(const struct layer_kind *kind);
// Takes the positions from these layers: their kinds get ROPE_NONE, split where other layers have them. False if
// there are too many kinds then.
bool config_remove_positions(struct config *config, const bool layers[CONFIG_KIND_LAYERS]);
// Likewise gives these layers this MLP.
bool config_set_mlp(struct config *config, const bool layers[CONFIG_KIND_LAYERS], size_t mlp);
// Width of the layer's MLP, or of all experts that a token takes.
size_t config_active_width(const struct config *config, size_t layer);
// Checks the numbers of a mixture.
bool config_check_experts(const struct experts *experts, struct status *status);
// RoPE's angular frequencies, scaling applied: rope_rotary / 2 values. kind: one of the config's. context: tokens
// of the longest document, which longrope and dynamic choose by.
void rope_frequencies(const struct config *config, const struct layer_kind *kind, size_t context,
                      double *frequencies);
// Whether these are the same for two kinds.
bool rope_is_same(const struct layer_kind *kind, const struct layer_kind *other);
// Factor of what turns of queries and keys: 1 except for yarn and longrope.
double rope_gain(const struct layer_kind *kind);
// YaRN's own choice of it for a factor, 0.1 ln(factor) + 1; and longrope's, sqrt(1 + ln(factor) / ln(context)), 1
// for factors up to 1.
double rope_yarn_gain(double factor);
double rope_longrope_gain(double factor, size_t original_context);
// Length of the chunks of layers with chunked attention; 0: there are none.
size_t config_chunk(const struct config *config);
