// Attention: that of transformers' decoders, with its tables of positions and its masks: by PyTorch's
// scaled_dot_product_attention, or eager, which makes all pairs of tokens.
#pragma once
#include "kernels/framework/framework_run.h"

// Tells whether layers of a kind are there and have a table of positions of their own; other kinds read that of the
// first one with equal positions.
bool attention_has_table(const struct framework_run *run, size_t kind);
// The forward pass's tables: positions, cos and sin of them, masks.
void attention_make_tables(struct framework_run *run);
// Ends the names that hold them. Checkpoints may keep them and read them on.
void attention_end_tables(struct framework_run *run);
// Layer l's attention before o_proj, of queries and keys by heads before RoPE, and values. *weights: what its
// caller keeps by it until the layer is done, or no value.
struct value attention_forward(struct framework_run *run, size_t l, struct value *q, struct value *k,
                               struct value *v, struct value *weights);
// Tells whether values are views by heads.
bool attention_is_eager(const struct framework_run *run);
