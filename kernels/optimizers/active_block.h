// Turns: layers that train one after another, each for so many updates; what optimizers of blocks are asked.
#pragma once
#include "kernels/trainer/optimizer.h"
#include "kernels/trainer/weight_options.h"

struct block_options {
    size_t interval, lowest;
    int order;
};

// Rows for a struct that has a member `blocks`, a struct block_options.
#define OPTIONS_BLOCKS(options)                                                                                    \
    {OPTION("interval", COUNT, options, blocks.interval), .minimum = 1, .maximum = OPTION_COUNT_MAX,               \
     .initial = 100, .help = "updates of a layer before the next one's turn"},                                     \
        {OPTION("order", CHOICE, options, blocks.order),                                                           \
         .choices = OPTION_CHOICES("ascending", "descending", "random"),                                           \
         .help = "of the layers' turns; random: anew in every round, each layer once"},                            \
    {                                                                                                              \
        OPTION("lowest", COUNT, options, blocks.lowest), .maximum = OPTION_COUNT_MAX,                              \
                                                         .help = "layer, from 0, below which none has a turn"      \
    }

// False and a status if the model has no such layer.
bool active_block_check(const struct block_options *options, const struct config *config, struct status *status);
// The layer of turn `number`, as struct optimizer's hook; seed: of a random order.
size_t active_block_layer(const struct block_options *options, size_t seed, const struct config *config,
                          size_t number);
