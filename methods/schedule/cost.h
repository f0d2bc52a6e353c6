// Cost: bytes per token of the parts of the methods' lower bounds (methods/README.md). e: bytes per element of
// activations, a: of dKV's accumulator. Statistics (logsumexp, rstd) are f32, or f64 in f64.
#pragma once
#include "kernels/model/model.h"

double cost_input(const struct model *model);        // d e if a rank below sends the lowest layer's input, else 0
double cost_hidden(const struct model *model);       // d e
double cost_kv(const struct model *model);           // 2 G D e
double cost_kv_gradients(const struct model *model); // 2 G D a
// For a whole layer: P ranks that share tokens and gather hold P times as much per own token; ranks that exchange
// heads, if there are fewer heads, P / G times as much.
double cost_layer_kv(const struct model *model);
double cost_layer_kv_gradients(const struct model *model);
// Attention's output, kept from the forward: H D e, and a statistic per head.
double cost_attention(const struct model *model);
// A lean cell keeps besides its input, keys and values: q, o, x_mid, gate, up and the statistics.
double cost_cell(const struct model *model);
