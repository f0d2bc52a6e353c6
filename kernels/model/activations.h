// Activations: tensors that a cell keeps for its backward.
#pragma once
#include "kernels/device/ops.h"
#include <stddef.h>

// `lean` keeps tensors that only GEMMs can rebuild; `all` keeps the norms' outputs and SwiGLU's product too, as a
// framework's autograd does. A forward that no backward follows keeps nothing.
enum keep { KEEP_LEAN, KEEP_ALL, KEEP_NOTHING };

// Owner of a mixer's outputs (o and logsumexp of attention): the cell, which computes and frees them with the
// rest; or a caller that keeps them from the forward to the backward, so that the mixer does not run again: a
// forward that keeps nothing else writes them, and a rebuild reads them.
enum mixer_output { OUTPUT_OWN, OUTPUT_WRITE, OUTPUT_WRITTEN };

#define KEPT_OWN      12
#define MIXER_OUTPUTS 2

// A cell's kept tensors of one block.
struct kept {
    struct tensor own[KEPT_OWN]; // by the kind's own numbers; a mixer's outputs come first
    struct tensor h, rstd;       // [n, d], `all` only, and [n, 1], centred [n, 2]: the norm of the block's input
    struct tensor out, rstd_out; // [n, d], [n, 1]: what the block adds, before its norm; with such a norm only
    // Like the mixer's first output, whose product with the gate's sigmoid the block's last projection then reads;
    // behind that projection's backward the gradient of the gate. No tensor: none.
    struct tensor gate;
};

#define ACTIVATIONS_OWNED (2 * (KEPT_OWN + 5) + 2)

struct activations {
    enum mixer_output output;
    struct tensor x; // [n, d], the cell's input; owned elsewhere
    union {
        struct tensor owned[ACTIVATIONS_OWNED];
        struct {
            struct kept mixer, mlp;
            struct tensor x_mid; // [n, d], between the two; of parallel layers none
            struct tensor grad;  // [n, d], of parallel layers: the gradient of what each of the two adds
        };
    };
};
_Static_assert(offsetof(struct activations, grad) ==
                   offsetof(struct activations, owned) + (ACTIVATIONS_OWNED - 1) * sizeof(struct tensor),
               "every tensor that a cell owns is in the array");
// Frees what the cell owns.
void activations_free(struct device *device, struct activations *a);
