// Offload: what of a walk is kept on the host until it is read again.
#pragma once
#include "kernels/base/status.h"
#include "methods/options.h"
#include <stdbool.h>

enum offload {
    OFFLOAD_NONE,
    OFFLOAD_INPUTS,          // of rows, until they are rebuilt
    OFFLOAD_INPUTS_GRADIENT, // and the gradient of the row above
    OFFLOAD_KV               // keys and values of every layer, and their gradients
};

#define OPTION_OFFLOAD(options)                                                                                    \
    {                                                                                                              \
        .name = "offload", .type = OPTION_CHOICE, .offset = offsetof(options, offload), .initial = OFFLOAD_NONE,   \
        .choices = OPTION_CHOICES("none", "inputs", "inputs+gradient", "kv"),                                      \
        .help = "what is kept on the host: rows' inputs until they are rebuilt (checkpoint, streambp); the "       \
                "gradient of the row above, too (streambp); keys, values and their gradients (seco, spaco)"        \
    }

// False and a status if it is neither none nor one of `served`, a list that ends in OFFLOAD_NONE. keeps: what the
// method keeps, in words.
bool offload_check(enum offload offload, const enum offload *served, const char *keeps, struct status *status);
