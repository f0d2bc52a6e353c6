// Carry: the tensors that a layer's cells read from their left. Attention carries keys and values of every token,
// a recurrent mixer a state from chunk to chunk. A carry has two tensors at most; its mixer gives their shape
// (block.h). Sequences that continue a shared prompt begin with the state behind it, the base.
#pragma once
#include "kernels/model/model.h"
#include "kernels/objectives/batch.h"

struct carry {
    union {
        struct tensor t[CARRY_TENSORS];
        struct {
            struct tensor k, v; // of attention: keys after RoPE, and values, [T * B, kv_heads * head_dim] each
        };
    };
    struct tensor base[CARRY_TENSORS]; // [B, ..] each, of states alone; no tensors: no sequence has a prompt
    // A state belongs to the border of two chunks, in B rows; border: rows of tokens from one to the next, 0: each
    // row of tokens has one of its own.
    size_t border, batch;
};
// Tokens per sequence, sequences, tokens per chunk, and whether sequences have prompts.
struct carry_size {
    size_t tokens, batch, chunk;
    bool prompts;
};
static inline struct carry_size carry_size_of(const struct batch *batch, size_t tokens, size_t chunk)
{
    return (struct carry_size){tokens, batch->batch, chunk, batch->prefixes != NULL};
}
// The layer's carry of `size`, and its gradient; a state has one gradient, that of the border reached, which is on
// the device, as bases are. Not zeroed; out of memory is in the device's status. Release with carry_free.
struct carry carry_new(struct model *model, size_t layer, enum place place, struct carry_size size);
struct carry carry_gradient_new(struct model *model, size_t layer, enum place place, struct carry_size size);
// Tensors as wide as the carry's, for rows of tokens.
struct carry carry_like(struct model *model, struct carry carry, size_t rows, enum dtype dtype,
                        enum category category);
void carry_zero(struct model *model, struct carry carry);
void carry_free(struct model *model, struct carry *carry);
// The carry of rows [start, start + count) of tokens, borrowed: their rows, or the states at the right borders of
// their chunks, of which the last chunk has none.
struct carry carry_rows(struct carry carry, size_t start, size_t count);
// The state left of row `start`, borrowed; no tensors at row 0, where it is 0.
struct carry carry_before(struct carry carry, size_t start);

// Tokens [start, start + count) of the context whose carry takes gradients, and these.
struct carry_segment {
    size_t start, count;
    struct carry grad;
    // Factor (0: 1) of a state's gradient on its way into the cell's tokens, but not to the left, and of what cells
    // of other chunks give weights through these tokens' latents; gradients of keys and values are multiplied in
    // place.
    double factor;
};

// A cell: a layer and a chunk of the batch's own tokens.
struct cell_at {
    struct model *model;
    const struct batch *batch;
    size_t layer;
    struct span chunk;
};
