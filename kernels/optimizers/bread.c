#include "kernels/optimizers/bread.h"

bool bread_check(const void *options, const struct config *config, enum dtype dtype, struct status *status)
{
    const struct bread_options *bread = options;
    return turns_check(&bread->turns, config, status) && state_check(bread->adamw.state, dtype, status);
}

size_t bread_turn(const void *options, const struct config *config, size_t number)
{
    const struct bread_options *bread = options;
    return turns_layer(&bread->turns, bread->adamw.weights.seed, config, number);
}

bool bread_expands(const struct bread_options *options, size_t layer, size_t active)
{
    return options->expand == EXPAND_ABOVE ? layer > active : layer != active;
}
