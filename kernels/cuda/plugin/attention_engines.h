// Attention engines: the graphs that were built for one card.
#pragma once
#include "kernels/cuda/plugin/attention_graph.h"

struct attention_engines {
    size_t card;
    struct attention_engines *next; // of another card
    struct attention_graph_target target;
    cudaStream_t stream; // the handle's
    void *graphs;        // a tree (tsearch) of struct attention_graph
    size_t graph_count, backward_graphs;
    size_t second_choices; // graphs that have not the engine that cuDNN would choose first
    size_t engine_bytes;   // the most workspace that one of them takes
};

// Of a card of this machine, the current one; kept until the process ends, for building them takes seconds. NULL
// and a status if there is no cuDNN, or no GPU that it can use.
struct attention_engines *attention_engines_of_card(size_t card, struct status *status);
// Of a card that is not there, described as cuDNN's own JSON: nothing can run. planned: kernels are compiled, too,
// which needs a driver, or what stands in for one. Release with attention_engines_free.
struct attention_engines *attention_engines_described(const char *properties, bool planned, struct status *status);
void attention_engines_free(struct attention_engines *engines);

// The graph of that shape, built when it is first asked for, with at most `most` bytes of workspace. NULL and a
// status if there is no engine for it.
struct attention_graph *attention_engines_graph(struct attention_engines *engines,
                                                struct attention_graph_shape shape, size_t max,
                                                struct status *status);
// cuDNN's handle, in that stream: all devices on a card share it. NULL: it does not take the stream.
cudnnHandle_t attention_engines_handle(struct attention_engines *engines, cudaStream_t stream);
