// Row: one layer of the whole context; what checkpoint and StreamBP walk, upward keeping each row's input, then
// downward.
#pragma once
#include "methods/columns.h"
#include "methods/method.h"

struct row_walk {
    size_t chunk, head_chunk; // tokens of a cell on the way up
    enum place inputs;        // where the rows' inputs are kept
    // grad: [T B, d], the gradient of the row's output, becomes that of its input x: [T B, d].
    void (*backward)(struct step *step, size_t layer, struct tensor x, struct tensor grad);
};

void row_walk(struct step *step, const struct row_walk *walk);
