// BCD: block coordinate descent, AdamW on one layer at a time, the active one, for so many updates, and then on the
// next with a state that is zero. Embedding, head and the norm before it are frozen. Gradients and state are those
// of one layer, and a backward pass ends with it. Luo, Yu & Li 2024 (BAdam), arXiv 2404.02827, algorithm 1.
// Deviation: the published code gives the first block one update less.
#include "kernels/optimizers/adamw.h"
#include "kernels/optimizers/turns.h"

struct bcd_options {
    struct adamw_options adamw;
    struct turn_options turns;
};

static const struct option rows[] = {
    OPTIONS_ADAMW(1e-5, 0.01, MASTER_KEPT), OPTIONS_TURNS(struct bcd_options), {0}};

static bool check(const void *options, const struct config *config, enum dtype dtype, struct status *status)
{
    const struct bcd_options *bcd = options;
    return turns_check(&bcd->turns, config, status) && state_check(bcd->adamw.state, dtype, status);
}

static size_t turn(const void *options, const struct config *config, size_t number)
{
    const struct bcd_options *bcd = options;
    return turns_layer(&bcd->turns, bcd->adamw.weights.seed, config, number);
}

const struct optimizer optimizer_bcd = {
    .name = "bcd",
    .summary = "block coordinate descent: AdamW on one layer at a time",
    .source = "Luo, Yu & Li 2024 (BAdam), arXiv 2404.02827",
    .options = {rows, sizeof(struct bcd_options)},
    .uneven = true,
    .by_element = true,
    .check = check,
    .turn = turn,
    .state = adamw_state,
    .update = adamw_update,
};
