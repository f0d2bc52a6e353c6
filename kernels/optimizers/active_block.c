#include "kernels/optimizers/active_block.h"

bool active_block_check(const void *of_optimizer, const struct config *config, enum dtype dtype,
                        struct status *status)
{
    const struct block_options *options = of_optimizer;
    if (options->lowest >= config->layers)
        return status_set(status, STATUS_BAD_INPUT, "there is no layer %zu, they are 0 to %zu; lower \"lowest\"",
                          options->lowest, config->layers - 1);
    return adamw_check(options, config, dtype, status);
}

// Layer number `place` in a random round over `count`: the end of a Fisher-Yates shuffle that depends only on the
// round.
static size_t drawn(size_t seed, size_t round, size_t place, size_t count)
{
    struct random random = random_named(seed, "turns");
    struct index_list order = index_list_range(count);
    for (size_t i = 0; i < count; i++) {
        size_t other = i + random_below(&random, round * count + i, count - i);
        uint32_t kept = order.items[i];
        order.items[i] = order.items[other];
        order.items[other] = kept;
    }
    size_t found = order.items[place];
    index_list_free(&order);
    return found;
}

size_t active_block_layer(const void *of_optimizer, const struct config *config, size_t number)
{
    const struct block_options *options = of_optimizer;
    size_t count = config->layers - options->lowest, place = number % count;
    if (options->order == ORDER_DESCENDING)
        place = count - 1 - place;
    else if (options->order == ORDER_RANDOM)
        place = drawn(options->adamw.weights.seed, number / count, place, count);
    return options->lowest + place;
}
