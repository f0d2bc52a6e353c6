// Options that several methods share, for structs with such members.
#pragma once
#include "kernels/base/options.h"

// Candidates of `nth`: every choice; powers of two of tokens with at most 256 chunks per context, and the whole
// context; blocks of 256 and 2,048 tokens; numbers of segments: 1, 2, 3, 4, 6, 8, 12 and so on, up to one per
// layer.
bool option_nth_choice(const struct option *option, void *value, size_t index, size_t layers, size_t context);
bool option_nth_chunk(const struct option *option, void *value, size_t index, size_t layers, size_t context);
bool option_nth_run(const struct option *option, void *value, size_t index, size_t layers, size_t context);
bool option_nth_block(const struct option *option, void *value, size_t index, size_t layers, size_t context);

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
