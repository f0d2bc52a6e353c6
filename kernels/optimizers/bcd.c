// BCD: block coordinate descent, AdamW on one active layer at a time, for an interval of updates, then on the next
// with a zero state. Embedding, head and final norm are frozen. Gradients and state are one layer's, and a backward
// pass stops at it. Luo, Yu & Li 2024 (BAdam), arXiv 2404.02827, algorithm 1. Deviation: the published code gives
// the first block one update less.
#include "kernels/optimizers/active_block.h"

static const struct option rows[] = {OPTIONS_BLOCKS, {0}};

const struct optimizer optimizer_bcd = {
    .name = "bcd",
    .summary = "block coordinate descent: AdamW on one layer at a time",
    .source = "Luo, Yu & Li 2024 (BAdam), arXiv 2404.02827",
    .options = {rows, sizeof(struct block_options)},
    .uneven = true,
    .by_element = true,
    .check = active_block_check,
    .active_layer = active_block_layer,
    .state = adamw_state,
    .update = adamw_update,
};
