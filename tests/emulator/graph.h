// Graph: what a graph of cuDNN's backend API computes, operation by operation, every intermediate stored, in f64,
// and rounded to bf16 where the graph says so. It shows what a graph means; whether cuDNN's engines agree only a
// GPU can tell. What engines are known to require or to refuse is checked.
#pragma once
#include "tests/emulator/descriptor.h"

enum {
    BINDINGS_MAX = sizeof((struct attribute *)0)->bytes / sizeof(void *),
    BACKWARD_WORKSPACE_BYTES = 4096,
    FORWARD_WORKSPACE_BYTES = 256
};

// A graph that was asked to run: what the variant pack binds, and of tensors by value what they were then.
struct execution {
    struct descriptor *graph, pack;
    char scalars[BINDINGS_MAX][4];
};

// What the engine takes.
size_t graph_workspace(const struct descriptor *graph);
// Reads what the pack binds by value, and checks all that is bound: aligned, the card's, and nothing that is
// written overlapping anything else.
struct execution *graph_ask(struct descriptor *graph, const struct descriptor *pack);
// Frees the execution.
void graph_run(void *execution);
