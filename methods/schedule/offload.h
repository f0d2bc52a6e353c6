// Offload: what of a walk is kept on the host until it is read again.
#pragma once
#include "methods/schedule/options.h"

// Offload targets of methods that go layer by layer (methods/schedule/layer_schedule.h).
enum layer_offload {
    LAYER_OFFLOAD_NONE,
    LAYER_OFFLOAD_INPUTS,         // until they are rebuilt
    LAYER_OFFLOAD_INPUTS_GRADIENT // and the gradient of the layer above
};

// Offload targets of methods that go chunk by chunk (methods/schedule/chunk_schedule.h).
enum chunk_offload {
    CHUNK_OFFLOAD_NONE,
    CHUNK_OFFLOAD_KV // keys and values of every layer, and their gradients
};

// With the method's own choices, in the order of its enum.
#define OPTION_OFFLOAD(options, ...)                                                                               \
    {                                                                                                              \
        .name = "offload", .type = OPTION_CHOICE, .offset = offsetof(options, offload),                            \
        .choices = OPTION_CHOICES(__VA_ARGS__),                                                                    \
        .help = "offload to the host: layers' inputs until they are rebuilt (checkpoint, streambp); the "          \
                "gradient of the layer above, too (streambp); keys, values and their gradients (seco, spaco)",     \
        .nth = option_nth_choice                                                                                   \
    }
