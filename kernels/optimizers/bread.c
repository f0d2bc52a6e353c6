#include "kernels/optimizers/bread.h"

bool bread_check(const void *options, const struct config *config, enum dtype dtype, struct status *status)
{
    const struct bread_options *bread = options;
    return active_block_check(&bread->blocks, config, status) && state_check(bread->adamw.state, dtype, status);
}

size_t bread_active_layer(const void *options, const struct config *config, size_t number)
{
    const struct bread_options *bread = options;
    return active_block_layer(&bread->blocks, bread->adamw.weights.seed, config, number);
}

bool bread_expands(const struct bread_options *options, size_t layer, size_t active)
{
    return options->expand == EXPAND_ABOVE ? layer > active : layer != active;
}
