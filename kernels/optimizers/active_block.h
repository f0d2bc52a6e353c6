// Active block: layers that train one after another, each for an interval of updates; shared by block optimizers.
#pragma once
#include "kernels/optimizers/adamw.h"

// Their structs begin with this.
struct block_options {
    struct adamw_options adamw; // of the active layer
    size_t interval, lowest;
    int order;
};

#define OPTIONS_BLOCKS                                                                                             \
    OPTIONS_ADAMW(1e-5, 0.01, MASTER_KEPT),                                                                        \
        {OPTION("interval", COUNT, struct block_options, interval), .minimum = 1, .maximum = OPTION_COUNT_MAX,     \
         .initial = 100, .help = "updates of a layer before the next one becomes active"},                         \
        {OPTION("order", CHOICE, struct block_options, order),                                                     \
         .choices = OPTION_CHOICES("ascending", "descending", "random"),                                           \
         .help = "order in which layers become active; random: a new order in every round over the layers"},       \
    {                                                                                                              \
        OPTION("lowest", COUNT, struct block_options, lowest), .maximum = OPTION_COUNT_MAX,                        \
                                                               .help = "lowest layer that becomes active, from 0"  \
    }

// Hooks of struct optimizer. Checks that the model has the lowest layer, and adamw's options.
bool active_block_check(const void *options, const struct config *config, enum dtype dtype, struct status *status);
size_t active_block_layer(const void *options, const struct config *config, size_t number);
