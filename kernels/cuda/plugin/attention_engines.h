// Attention engines: the graphs built for one card.
#pragma once
#include "kernels/cuda/plugin/attention_graph.h"

struct attention_engines {
    size_t card;
    struct attention_engines *next; // of another card
    struct attention_graph_target target;
    cudaStream_t stream; // the handle's
    void *graphs;        // a tree (tsearch) of struct attention_graph
    size_t graph_count, backward_graphs;
    size_t second_choices; // graphs without the engine that cuDNN would choose first
    size_t engine_bytes;   // maximum workspace over the graphs
};

// The engines of the current card, kept until the process ends, because building them takes seconds. Returns NULL
// and a status without cuDNN or a GPU that it supports.
struct attention_engines *attention_engines_of_card(size_t card, struct status *status);
// Engines for an absent card, described as cuDNN's JSON; they cannot run. planned: also compiles kernels, which
// needs a driver or a stub. Release with attention_engines_free.
struct attention_engines *attention_engines_described(const char *properties, bool planned, struct status *status);
void attention_engines_free(struct attention_engines *engines);

// The graph of a shape, built on first use, with at most `max` bytes of workspace. Returns NULL and a status if no
// engine supports it.
struct attention_graph *attention_engines_graph(struct attention_engines *engines,
                                                struct attention_graph_shape shape, size_t max,
                                                struct status *status);
// cuDNN's handle, set to this stream; all devices on a card share it. NULL: the stream could not be set.
cudnnHandle_t attention_engines_handle(struct attention_engines *engines, cudaStream_t stream);
