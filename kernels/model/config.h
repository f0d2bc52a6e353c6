// Config: the shape of a decoder, where its norms stand and what is scaled, and the presets with their public
// shapes.
#pragma once
#include "kernels/device/device.h"
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

// Number of layers, from the lowest, each of which may see all keys where the others have a window.
#define CONFIG_FULL_LAYERS 256
#define CONFIG_KINDS       256

// Position of the norms of a layer's two blocks, attention and MLP: on a block's input; on its output, before the
// residual sum (OLMo 2); or on both (Gemma 3).
enum norms { NORMS_BEFORE, NORMS_AFTER, NORMS_AROUND };
extern const char *const norms_names[];      // ending in NULL
extern const char *const activation_names[]; // of enum activation

struct config {
    char name[64];
    size_t layers, width, heads, kv_heads, head_dim, ffn, vocab;
    double rope_theta, norm_epsilon;
    struct rope_scaling rope_scaling;
    bool tied; // the head is the embedding table
    // Whether row `pad` of the embedding takes no gradient from tokens with that id (padding_idx of
    // torch.nn.Embedding); a tied head gives it one all the same.
    bool padded;
    size_t pad;         // below vocab; 0 unless padded
    bool qkv_bias;      // Qwen2
    bool qk_norm;       // Qwen3: RMSNorm over head_dim of q and k, before RoPE
    bool whole_qk_norm; // OLMo 2: of these two, over all heads at once
    bool unit_offset;   // Gemma: a norm's gain is 1 + its weight
    bool fused;         // Phi-3: files keep q, k, v in one matrix and gate, up in one, and so do adapters
    // The module of a model of images or sound that the decoder is, "language_model", by which adapters name their
    // tensors; NULL: it is all of the model.
    const char *submodule;
    enum norms norms;
    enum activation activation; // of the MLP's gate
    // Factors of queries and embeddings; 0: 1. Attention's own scale is 1 / sqrt(head_dim).
    double query_scale, embedding_scale;
    double local_rope_theta; // of layers with a window, which then have no scaling; 0: all have rope_theta
    size_t max_context;      // max_position_embeddings; not a limit here
    // A query sees this many keys, the last its own; 0: all before it. Layers whose bit is set, bit l % 64 of
    // number l / 64, see all keys.
    size_t sliding_window;
    uint64_t full_layers[CONFIG_FULL_LAYERS / 64];
    // Each layer's kinds, as numbers in mixers[] and mlps[] (block.h); layers beyond the last entry have its kinds.
    uint8_t mixers[CONFIG_KINDS], mlps[CONFIG_KINDS];
};

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
// Removes a layer's window. False if its number is too large.
bool config_set_full(struct config *config, size_t layer);
// The window of a layer; 0: none.
size_t config_window(const struct config *config, size_t layer);
// RoPE's angular frequencies, scaling applied: head_dim / 2 values. local: of layers with a window.
void config_rope_frequencies(const struct config *config, bool local, double *frequencies);
// Factor of rotated queries and keys, likewise: 1 except for yarn.
double config_rope_gain(const struct config *config, bool local);
// YaRN's own choice of it for a factor: 0.1 ln(factor) + 1.
double config_yarn_gain(double factor);
// Whether a layer uses the local frequencies.
bool config_rope_is_local(const struct config *config, size_t layer);
