// Attention shape: what a device is asked when tokens of a batch attend in a layer.
#pragma once
#include "kernels/model/config.h"
#include "kernels/objectives/batch.h"

// Of a run of tokens of B sequences.
struct attention_shape attention_shape_of(const struct config *config, const struct batch *batch, size_t layer,
                                          struct token_run run, size_t B);
