// BCD: block coordinate descent, AdamW on one layer at a time, the active one, for so many updates, and then on the
// next with a state that is zero. Embedding, head and the norm before it are frozen. Gradients and state are those
// of one layer, and a backward pass ends with it. Luo, Yu & Li 2024 (BAdam), arXiv 2404.02827, algorithm 1.
// Deviation: the published code gives the first block one update less.
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
