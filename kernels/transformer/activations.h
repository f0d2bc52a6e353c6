// Activations: what a cell keeps for its backward.
#pragma once
#include "kernels/transformer/model.h"

// `lean` keeps what costs GEMMs to rebuild; `all` keeps the norms' outputs and SwiGLU's product too, as a
// framework's autograd does.
enum keep { KEEP_LEAN, KEEP_ALL };

// Whose o and logsumexp are: the cell's own, made and freed with the rest; or of whoever keeps them from a forward
// to the backward, in place of attending once more: to be written, by a forward that keeps nothing else, or
// written.
enum attention_output { ATTENTION_OWN, ATTENTION_WRITE, ATTENTION_WRITTEN };

struct activations {
    enum attention_output attention;
    struct tensor x;                      // [n, d], the cell's input; owned elsewhere
    struct tensor q;                      // [n, H D], rotated; with qk_norm as projected, before its norm
    struct tensor k_projected;            // [n, G D], before its norm; with qk_norm only
    struct tensor o, logsumexp;           // [n, H D], [n, H]
    struct tensor attention_out, mlp_out; // [n, d] each, before their norm; with norms of outputs only
    struct tensor x_mid;                  // [n, d], after attention
    struct tensor gate, up;               // [n, f]
    struct tensor rstd_attention, rstd_mlp, rstd_q,
        rstd_k;                                     // [n, 1] [n, 1] [n H, 1] [n G, 1], or [n, 1] of whole rows
    struct tensor rstd_attention_out, rstd_mlp_out; // [n, 1]
    struct tensor h_attention, h_mlp, act;          // [n, d] [n, d] [n, f]; `all` only
};
// All but x; o and logsumexp come first.
#define ACTIVATIONS_OWNED        18
#define ACTIVATIONS_OF_ATTENTION 2
struct tensor *activations_owned(struct activations *a, size_t i);
// Those that are the cell's own.
void activations_free(struct model *model, struct activations *a);
