// Cost: bytes per token of the parts of the methods' lower bounds (methods/README.md). e: bytes per element of
// activations, a: of dKV's accumulator. Statistics (logsumexp, rstd) are f32, or f64 in f64.
#pragma once
#include "kernels/model/model.h"

double cost_input(const struct model *model);  // d e if a rank below sends the lowest layer's input, else 0
double cost_hidden(const struct model *model); // d e
// A layer's carry, of attention 2 G D e, and its gradient, 2 G D a. A state costs one per chunk, nothing in a
// single chunk (chunk 0), and its gradient nothing.
double cost_carry(const struct model *model, size_t layer, size_t chunk);
double cost_carry_gradient(const struct model *model, size_t layer);
// The gradient if chunks, of one token at the least, run over `context` tokens from the right: that of min(T, w)
// tokens of a layer with a window w.
double cost_sliding_gradient(const struct model *model, size_t layer, size_t context);
// Carry and, over `context` tokens from the right (0: without), gradient of the layer with the least, which may be
// the one that counts: P ranks that share tokens and gather hold P times as much per own token; ranks that exchange
// heads, if there are fewer heads, P / G times as much.
double cost_layer_carry(const struct model *model, size_t chunk, size_t context);
// A mixer's outputs, kept from the forward: attention's H D e, and a statistic per head.
double cost_outputs(const struct model *model, size_t layer);
// The tokens' choices of experts, in all of the rank's layers.
double cost_choices(const struct model *model);
// A lean cell keeps besides its input and carry: with attention and a dense MLP q, o, x_mid, gate, up and the
// statistics.
double cost_cell(const struct model *model, size_t layer);
