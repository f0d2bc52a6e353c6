// A small model's shape, with nothing but what every model has.
#pragma once
#include "kernels/model/config.h"

static const struct config small = {.layers = 2,
                                    .width = 16,
                                    .kinds = {{.heads = 4, .kv_heads = 2, .head_dim = 6, .rope_theta = 10000}},
                                    .ffn = 20,
                                    .vocab = 24,
                                    .norm_epsilon = 1e-5,
                                    .max_context = 64};
