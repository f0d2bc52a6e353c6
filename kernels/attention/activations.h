// Activations: what a cell keeps for its backward.
#pragma once
#include "kernels/model/model.h"
#include <stddef.h>

// `lean` keeps what costs GEMMs to rebuild; `all` keeps the norms' outputs and SwiGLU's product too, as a
// framework's autograd does. A forward that no backward follows keeps nothing.
enum keep { KEEP_LEAN, KEEP_ALL, KEEP_NOTHING };

// Whose o and logsumexp are: the cell's own, made and freed with the rest; or of whoever keeps them from a forward
// to the backward, in place of attending once more: to be written, by a forward that keeps nothing else, or
// written.
enum attention_output { ATTENTION_OWN, ATTENTION_WRITE, ATTENTION_WRITTEN };

// All that a cell keeps but its input; o and logsumexp come first.
#define ACTIVATIONS_OWNED        18
#define ACTIVATIONS_OF_ATTENTION 2

struct activations {
    enum attention_output attention;
    struct tensor x; // [n, d], the cell's input; owned elsewhere
    union {
        struct tensor owned[ACTIVATIONS_OWNED];
        struct {
            struct tensor o, logsumexp; // [n, H D], [n, H]
            struct tensor q;            // [n, H D], rotated; with qk_norm as projected, before its norm
            struct tensor k_projected;  // [n, G D], before its norm; with qk_norm only
            struct tensor x_mid;        // [n, d], after attention
            struct tensor gate, up;     // [n, f]
            struct tensor rstd_q, rstd_k, rstd_attention,
                rstd_mlp;                          // [n H, 1] [n G, 1], or [n, 1] of whole rows; [n, 1] [n, 1]
            struct tensor h_attention, h_mlp, act; // [n, d] [n, d] [n, f]; `all` only
            struct tensor attention_out, mlp_out;  // [n, d] each, before their norm; with norms of outputs only
            struct tensor rstd_attention_out, rstd_mlp_out; // [n, 1]
        };
    };
};
_Static_assert(offsetof(struct activations, rstd_mlp_out) ==
                   offsetof(struct activations, owned) + (ACTIVATIONS_OWNED - 1) * sizeof(struct tensor),
               "every tensor of a cell's own is in the array");
// Those that are the cell's own.
void activations_free(struct model *model, struct activations *a);
