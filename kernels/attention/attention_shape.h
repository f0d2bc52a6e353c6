// Attention shape: the shape of a layer's attention over tokens of a batch.
#pragma once
#include "kernels/model/config.h"
#include "kernels/objectives/batch.h"

// A cell's kept tensors of attention: its outputs, o: [n, H D] and logsumexp: [n, H], and further ones of its
// mixer.
enum attention_kept {
    ATTENTION_O,
    ATTENTION_LOGSUMEXP,
    ATTENTION_Q,      // [n, H D], rotated; with qk_norm as projected, before its norm
    ATTENTION_K,      // [n, G D], as projected, before its norm; with qk_norm only
    ATTENTION_RSTD_Q, // [n H, 1], [n G, 1], or [n, 1] of whole rows
    ATTENTION_RSTD_K,
    ATTENTION_V,      // as K, with v_norm only, unless values are keys
    ATTENTION_RSTD_V, // [n G, 1]
    ATTENTION_KEPT
};

// The shape for a run of tokens of B sequences.
struct attention_shape attention_shape_of(const struct config *config, const struct batch *batch, size_t layer,
                                          struct token_run run, size_t B);
// Pairs of a query and a key that it sees in layers of the kind, per sequence.
double attention_pairs(const struct batch *batch, const struct layer_kind *kind);
