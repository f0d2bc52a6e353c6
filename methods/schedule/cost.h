// Cost: the bytes per token that the methods' floors are made of (methods/README.md). e: bytes per element of
// activations, a: of the accumulated gradients of keys and values. Statistics (logsumexp, rstd) are f32, or f64 in
// f64.
#pragma once
#include "kernels/model/model.h"

double cost_input(const struct model *model);  // d e where a rank below sends the input of the lowest layer, else 0
double cost_hidden(const struct model *model); // d e
double cost_kv(const struct model *model);     // 2 G D e
double cost_kv_gradients(const struct model *model); // 2 G D a
// Of a row: where P ranks share the tokens and gather, each has those of all, P times as many per token of its own;
// where they attend for some heads each, and these are fewer, P / G times as many.
double cost_layer_kv(const struct model *model);
double cost_layer_kv_gradients(const struct model *model);
// What attention gives, kept from the forward: H D e, and a statistic for each head.
double cost_attention(const struct model *model);
// What a lean cell keeps beside its input and its keys and values: q, o, x_mid, gate, up and the statistics.
double cost_cell(const struct model *model);
