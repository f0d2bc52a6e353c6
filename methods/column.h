// Column: all layers of one chunk; what SeCO and SpaCO walk, left to right without keeping, then right to left.
#pragma once
#include "methods/method.h"

enum inner { INNER_NONE, INNER_CHECKPOINT };

// What a method that walks columns is asked; its struct begins with this.
struct column_options {
    size_t chunk, head_chunk;
    enum keep keep;
    enum inner inner;
};

#define OPTION_INNER(options)                                                                                      \
    {                                                                                                              \
        .name = "inner", .type = OPTION_CHOICE, .offset = offsetof(options, inner), .initial = INNER_NONE,         \
        .choices = OPTION_CHOICES("none", "checkpoint"),                                                           \
        .help = "inside a column: keep every cell's activations, or its input alone"                               \
    }

// What the first pass wants of a column besides the keys and values of all its layers: with COLUMN_LOSS its share
// of the loss, or what the objective gathers of it.
enum column_output { COLUMN_KV, COLUMN_LOSS };

// First pass over a chunk: keys and values of every layer into kv[l]. Without COLUMN_LOSS the top layer stops after
// its keys and values and the head is not run.
void column_forward(struct step *step, struct span chunk, struct kv *kv, enum column_output output);
// Second pass: rebuilds the column's cells keeping their activations (with inner checkpoint: their inputs), then
// the head and the rows downward. cached: its keys and values are in kv already. last: no column is walked after
// it. segments: [layers][segment_count], of which the last holds the column's own keys.
void column_backward(struct step *step, struct span chunk, struct kv *kv, bool cached, bool last,
                     const struct key_segment *segments, size_t segment_count, struct loss_weights weights);
