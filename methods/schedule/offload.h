// Offload: what of a walk is kept on the host until it is read again.
#pragma once
#include "methods/schedule/options.h"

// Offload targets of methods that go layer by layer (methods/schedule/row.h).
enum row_offload {
    ROW_OFFLOAD_NONE,
    ROW_OFFLOAD_INPUTS,         // until they are rebuilt
    ROW_OFFLOAD_INPUTS_GRADIENT // and the gradient of the row above
};

// Offload targets of methods that go chunk by chunk (methods/schedule/column_walk.h).
enum column_offload {
    COLUMN_OFFLOAD_NONE,
    COLUMN_OFFLOAD_KV // keys and values of every layer, and their gradients
};

// With the method's own choices, in the order of its enum.
#define OPTION_OFFLOAD(options, ...)                                                                               \
    {                                                                                                              \
        .name = "offload", .type = OPTION_CHOICE, .offset = offsetof(options, offload),                            \
        .choices = OPTION_CHOICES(__VA_ARGS__),                                                                    \
        .help = "what is kept on the host: rows' inputs until they are rebuilt (checkpoint, streambp); the "       \
                "gradient of the row above, too (streambp); keys, values and their gradients (seco, spaco)",       \
        .nth = option_nth_choice                                                                                   \
    }
