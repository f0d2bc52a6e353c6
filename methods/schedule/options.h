// Options that several methods share, for structs with such members.
#pragma once
#include "kernels/base/options.h"

// Targets of offload, on the host while nothing uses them: bits of the option offload, in the order of its words.
enum offload_target {
    OFFLOAD_WEIGHTS = 1,
    OFFLOAD_GRADIENTS = 2, // a unit's, once they are complete
    OFFLOAD_OPTIMIZER = 4, // its state
    OFFLOAD_TRAINER = 7,   // all of these
    // Layer schedules alone (methods/schedule/layer_schedule.h).
    OFFLOAD_INPUTS = 8,           // until their layer is recomputed
    OFFLOAD_INPUT_GRADIENTS = 16, // also the gradient of the layer above
    // Chunk schedules alone (methods/schedule/chunk_schedule.h).
    OFFLOAD_KV = 8 // keys and values of every layer, and their gradients
};

// Candidates of `nth`: every choice; powers of two of tokens with at most 256 chunks per context, and the whole
// context; blocks of 256 and 2,048 tokens; numbers of segments: 1, 2, 3, 4, 6, 8, 12 and so on, up to one per
// layer.
bool option_nth_choice(const struct option *option, void *value, size_t index, size_t layers, size_t context);
bool option_nth_chunk(const struct option *option, void *value, size_t index, size_t layers, size_t context);
bool option_nth_run(const struct option *option, void *value, size_t index, size_t layers, size_t context);
bool option_nth_block(const struct option *option, void *value, size_t index, size_t layers, size_t context);
// Those of offload leave the trainer's words as they are: none of the method's own, its first, its first two.
bool option_nth_offload(const struct option *option, void *value, size_t index, size_t layers, size_t context);

// ascends: a step in longer chunks takes no more time; false if only some chunks are drawn.
#define OPTION_CHUNK(options, ascends)                                                                             \
    {                                                                                                              \
        .name = "chunk", .type = OPTION_COUNT, .offset = offsetof(options, chunk), .minimum = 1,                   \
        .maximum = OPTION_COUNT_MAX, .initial = 512, .help = "tokens per chunk of the context", .tokens = true,    \
        .telling = true, .nth = option_nth_chunk, .ascending = (ascends)                                           \
    }
#define OPTION_HEAD_CHUNK(options)                                                                                 \
    {                                                                                                              \
        .name = "head_chunk", .type = OPTION_COUNT, .offset = offsetof(options, head_chunk),                       \
        .maximum = OPTION_COUNT_MAX, .initial = 256, .card_rows = 2048, .tokens = true,                            \
        .help = "tokens per block of logits; 0: all of a chunk at once", .nth = option_nth_block,                  \
        .ascending = true                                                                                          \
    }
#define OPTION_KEEP(options)                                                                                       \
    {                                                                                                              \
        .name = "keep", .type = OPTION_CHOICE, .offset = offsetof(options, keep), .initial = KEEP_LEAN,            \
        .choices = OPTION_CHOICES("lean", "all"),                                                                  \
        .help = "activations that a cell keeps: lean recomputes norms and SwiGLU's product, all keeps them as "    \
                "autograd does",                                                                                   \
        .nth = option_nth_choice, .ascending = true                                                                \
    }
// Adds the method's own words to the trainer's, in the order of enum offload_target.
#define OPTION_OFFLOAD(options, ...)                                                                               \
    {                                                                                                              \
        .name = "offload", .type = OPTION_WORDS, .offset = offsetof(options, offload),                             \
        .choices = OPTION_CHOICES("weights", "gradients", "optimizer", ##__VA_ARGS__),                             \
        .help = "what is on the host while unused: weights, gradients, optimizer (its state); inputs of layers "   \
                "(checkpoint, streambp), with them input_gradients (streambp); kv, keys, values and their "        \
                "gradients (seco, spaco, deferred)",                                                               \
        .nth = option_nth_offload                                                                                  \
    }
