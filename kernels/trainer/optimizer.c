#include "kernels/trainer/optimizer.h"
#include "kernels/trainer/weight_options.h"
#include <stdlib.h>
#include <string.h>

// Every optimizer once: optimizer_sgd and so on, in the order of lists; the first is the default.
#define OPTIMIZERS(X)                                                                                              \
    X(adamw)                                                                                                       \
    X(sgd)                                                                                                         \
    X(adam8bit)                                                                                                    \
    X(bcd)                                                                                                         \
    X(bread_sgd)                                                                                                   \
    X(bread_lora)                                                                                                  \
    X(galore)                                                                                                      \
    X(natural_galore)

#define DECLARED(name) extern const struct optimizer optimizer_##name;
#define LISTED(name)   &optimizer_##name,
OPTIMIZERS(DECLARED)
const struct optimizer *const optimizers[] = {OPTIMIZERS(LISTED) NULL};

const struct optimizer *optimizer_find(const char *name)
{
    for (const struct optimizer *const *o = optimizers; *o; o++)
        if (strcmp((*o)->name, name) == 0)
            return *o;
    return NULL;
}

bool optimizer_check(const struct optimizer *optimizer, const void *options, const struct config *config,
                     enum dtype dtype, struct status *status)
{
    bool rounds = options_choice(&optimizer->options, options, "round", ROUND_NEAREST) == ROUND_STOCHASTIC;
    if (rounds && dtype != DTYPE_BF16)
        return status_set(
            status, STATUS_BAD_INPUT,
            "round \"stochastic\" requires weights in bf16, not %s; leave it out, or use dtype \"bf16\"",
            dtype_name(dtype));
    bool draws = rounds || options_choice(&optimizer->options, options, "order", ORDER_ASCENDING) == ORDER_RANDOM ||
                 options_choice(&optimizer->options, options, "sums", SUMS_WHOLE) == SUMS_PROJECTED;
    if (!draws && options_count(&optimizer->options, options, "seed", OPTIMIZER_SEED) != OPTIMIZER_SEED)
        return status_set(status, STATUS_BAD_INPUT, "these options draw no random numbers; leave seed out");
    return !optimizer->check || optimizer->check(options, config, dtype, status);
}

bool optimizer_updates_in_backward(const struct optimizer *optimizer, const void *options)
{
    return options_choice(&optimizer->options, options, "when", UPDATE_AT_END) == UPDATE_IN_BACKWARD;
}

bool optimizer_keeps_gradients(const struct optimizer *optimizer, const void *options)
{
    return !optimizer_updates_in_backward(optimizer, options) &&
           options_choice(&optimizer->options, options, "sums", SUMS_WHOLE) == SUMS_WHOLE;
}

size_t optimizer_interval(const struct optimizer *optimizer, const void *options)
{
    return options_count(&optimizer->options, options, "interval", 1);
}

size_t optimizer_lowest_active(const struct optimizer *optimizer, const void *options, const struct config *config,
                               size_t updates, size_t layers[], size_t max)
{
    size_t found = 0, turns = config->layers;
    if (!optimizer->active_layer)
        return 0;
    if (updates) {
        size_t interval = optimizer_interval(optimizer, options),
               begun = updates / interval + (updates % interval > 0);
        turns = begun < turns ? begun : turns;
    }
    bool *has = calloc(config->layers, sizeof *has);
    for (size_t number = 0; number < turns; number++)
        has[optimizer->active_layer(options, config, number)] = true;
    for (size_t l = 0; l < config->layers && found < max; l++)
        if (has[l])
            layers[found++] = l;
    free(has);
    return found;
}
