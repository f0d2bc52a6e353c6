// Carry: the tensors that a layer's cells read from their left. Attention carries keys and values of every token,
// a recurrent mixer a state from chunk to chunk. A carry has two tensors at most; its mixer gives their shape
// (block.h). Sequences that continue a shared prompt begin with the state behind it, the base.
#pragma once
#include "kernels/base/index_list.h"
#include "kernels/model/model.h"
#include "kernels/objectives/batch.h"

// How a state's gradient passes chunks where some are not drawn. CARRY: as the state does; its factor applies where
// it enters the tokens of a drawn chunk. CUT: it ends at chunks that are not drawn, and is multiplied on its way
// through the others. IN_PLACE: it passes all, but is multiplied on its way, which is biased.
enum state_passage { STATE_CARRY, STATE_CUT, STATE_IN_PLACE };
// Chunks that run backward where others do not. Between two of them that are not neighbours is a gap.
struct carry_draw {
    struct index_list chunks; // left to right
    uint32_t *gaps;           // [chunks.count] the number of gaps to the left of each
    enum state_passage passage;
};
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
    const struct carry_draw *draw; // states at the left borders of its chunks alone; NULL: of every chunk
    // Transitions of gaps, [gaps * B, transition], unless it cuts, and, if bases are there, of these.
    struct tensor transition, base_transition;
    // Gradients that slide: rows of a chunk's own keys, the last ones, behind those of the keys to its left that
    // its queries see; 0: each row of tokens has one.
    size_t own;
};
// Tokens per sequence, sequences, tokens per chunk, whether sequences have prompts, and what struct carry says.
struct carry_size {
    size_t tokens, batch, chunk;
    bool prompts;
    const struct carry_draw *draw;
    // Chunks run from the right, and a chunk's gradients are spent when it is done: those of a layer with a window
    // slide.
    bool slides;
};
static inline struct carry_size carry_size_of(const struct batch *batch, size_t tokens, size_t chunk)
{
    return (struct carry_size){
        .tokens = tokens, .batch = batch->batch, .chunk = chunk, .prompts = batch->prefixes != NULL};
}
// The layer's carry of `size`, and its gradient; a state has one gradient, that of the border reached, which is on
// the device, as bases are; sliding ones have min(tokens, window - 1 + chunk) rows per sequence. Not zeroed; out of
// memory is in the device's status. Release with carry_free.
struct carry carry_new(struct model *model, size_t layer, enum place place, struct carry_size size);
struct carry carry_gradient_new(struct model *model, size_t layer, enum place place, struct carry_size size);
// Tensors as wide as the carry's, for rows of tokens.
struct carry carry_like(struct model *model, struct carry carry, size_t rows, enum dtype dtype,
                        enum category category);
void carry_zero(struct model *model, struct carry carry);
void carry_free(struct model *model, struct carry *carry);
// Number of states at borders up to the right one of chunk c: of all chunks, or of the left borders of drawn ones.
// Between drawn chunks one state moves on from border to border.
size_t carry_states(const struct carry_draw *draw, size_t c);
// The carry of rows [start, start + count) of tokens, borrowed: their rows, or the states at the right borders of
// their chunks, of which the last chunk has none.
struct carry carry_rows(struct carry carry, size_t start, size_t count);
// The state left of row `start`, borrowed; no tensors at row 0, where it is 0.
struct carry carry_before(struct carry carry, size_t start);
// The gap that the chunk at row `start` is in, or, of a drawn chunk, the one to its right: its rows of tokens, and
// transitions. rows 0: there is none.
struct carry_gap {
    size_t start, rows;
    struct tensor transition, base_transition;
};
struct carry_gap carry_gap_at(struct carry carry, size_t start);

// Tokens [start, start + count) of the context whose carry takes gradients, and these.
struct carry_segment {
    size_t start, count;
    struct carry grad;
    // Factor (0: 1) of a state's gradient on its way into the cell's tokens, but not to the left, and of what cells
    // of other chunks give weights through these tokens' latents; gradients of keys and values are multiplied in
    // place.
    double factor;
};
// The gradients that a chunk's backward adds to, as one segment: those of all tokens, or sliding ones of the keys
// that the chunk sees. Borrowed.
struct carry_segment carry_segment_of(struct carry gradients, struct span chunk);
// The chunk at row `start` of tokens is next, and the one to its right is done: moves the sliding gradients that
// are kept, and zeroes those of the other keys that the chunk sees. Others stay as they are.
void carry_slide(struct model *model, struct carry gradients, size_t start);
// Its parts, for copies through the host: rows of the keys left of `start` that the chunk there sees; where the
// chunk at `start` has those that the one to its right kept; and the zeros. Borrowed.
struct carry carry_alive(struct carry gradients, size_t start);
struct carry carry_moved(struct carry gradients, size_t start);
void carry_zero_new(struct model *model, struct carry gradients, size_t start);

// A cell: a layer and a chunk of the batch's own tokens.
struct cell_at {
    struct model *model;
    const struct batch *batch;
    size_t layer;
    struct span chunk;
    // With experts (kernels/layers/choices.h): its rows of the step's choices, no tensor: the step keeps none;
    // whether they are made, and not this cell's to make; and whether an earlier cell saw these tokens.
    struct tensor choices;
    bool chosen, seen;
    // And the terms of the router's losses, the layer's totals (route_count_op), no tensor: there are none, and the
    // rows of the batch's repeats.
    struct router_terms router_terms;
    struct tensor totals, repeats;
};
