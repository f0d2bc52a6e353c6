// BCD: block coordinate descent, AdamW on one layer at a time, the active one, for so many updates, and then on the
// next with a state that is zero. Embedding, head and the norm before it are frozen. Gradients and state are those
// of one layer, and a backward pass ends with it. Luo, Yu & Li 2024 (BAdam), arXiv 2404.02827, algorithm 1.
// Deviation: the published code gives the first block one update less.
#include "kernels/optimizers/active_block.h"
#include "kernels/optimizers/adamw.h"

struct bcd_options {
    struct adamw_options adamw;
    struct block_options blocks;
};

static const struct option rows[] = {
    OPTIONS_ADAMW(1e-5, 0.01, MASTER_KEPT), OPTIONS_BLOCKS(struct bcd_options), {0}};

static bool check(const void *options, const struct config *config, enum dtype dtype, struct status *status)
{
    const struct bcd_options *bcd = options;
    return active_block_check(&bcd->blocks, config, status) && state_check(bcd->adamw.state, dtype, status);
}

static size_t active_layer(const void *options, const struct config *config, size_t number)
{
    const struct bcd_options *bcd = options;
    return active_block_layer(&bcd->blocks, bcd->adamw.weights.seed, config, number);
}

const struct optimizer optimizer_bcd = {
    .name = "bcd",
    .summary = "block coordinate descent: AdamW on one layer at a time",
    .source = "Luo, Yu & Li 2024 (BAdam), arXiv 2404.02827",
    .options = {rows, sizeof(struct bcd_options)},
    .uneven = true,
    .by_element = true,
    .check = check,
    .active_layer = active_layer,
    .state = adamw_state,
    .update = adamw_update,
};
