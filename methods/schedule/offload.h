// Offload: offload targets of schedules.
#pragma once
#include "methods/schedule/options.h"

// Targets of layer schedules (methods/schedule/layer_schedule.h).
enum layer_offload {
    LAYER_OFFLOAD_NONE,
    LAYER_OFFLOAD_INPUTS,         // until their layer is recomputed
    LAYER_OFFLOAD_INPUTS_GRADIENT // and the gradient of the layer above
};

// Targets of chunk schedules (methods/schedule/chunk_schedule.h).
enum chunk_offload {
    CHUNK_OFFLOAD_NONE,
    CHUNK_OFFLOAD_KV // keys and values of every layer, and their gradients
};

// Adds the method's own choices, in the order of its enum.
#define OPTION_OFFLOAD(options, ...)                                                                               \
    {                                                                                                              \
        .name = "offload", .type = OPTION_CHOICE, .offset = offsetof(options, offload),                            \
        .choices = OPTION_CHOICES(__VA_ARGS__),                                                                    \
        .help = "offload to the host: layers' inputs (checkpoint, streambp), also the gradient of the layer "      \
                "above (streambp); keys, values and their gradients (seco, spaco)",                                \
        .nth = option_nth_choice                                                                                   \
    }
