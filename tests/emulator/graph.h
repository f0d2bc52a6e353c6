// Graph: what a graph of cuDNN's backend API computes, operation by operation, every intermediate stored, in f64,
// and rounded to bf16 where the graph says so. It shows what a graph means; whether cuDNN's engines agree only a
// GPU can tell. It checks the known requirements of engines.
#pragma once
#include "tests/emulator/descriptor.h"

enum {
    BINDINGS_MAX = sizeof((struct attribute *)0)->bytes / sizeof(void *),
    BACKWARD_WORKSPACE_BYTES = 4096, // a deterministic one besides dS, in bf16
    FORWARD_WORKSPACE_BYTES = 256
};

// A graph that was asked to run: what the variant pack binds, and of tensors by value what they were then.
struct execution {
    struct descriptor *graph, pack;
    bool deterministic;
    char scalars[BINDINGS_MAX][4];
};

// Whether graphs of its form may have a deterministic engine beside the one that is not: a backward without an
// accumulator of dQ.
bool graph_keeps_scores(const struct descriptor *graph);
// Bytes of an engine's workspace.
size_t graph_workspace(const struct descriptor *graph, bool deterministic);
// Reads what the pack binds by value, and checks all that is bound: aligned, the card's, and nothing that is
// written overlapping anything else.
struct execution *graph_ask(struct descriptor *graph, const struct descriptor *pack, bool deterministic);
// Frees the execution.
void graph_run(void *execution);
