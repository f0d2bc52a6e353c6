// Row: one layer of the whole context; what checkpoint and StreamBP walk, upward keeping rows' inputs, then
// downward. With one stage every row's input is kept; with several, while the rows go up, those of the stages, and
// then of one stage after another from the highest those of its rows; the embedding is looked up again. Of L layers
// in S stages, the highest of m, L - S - (m - 1) rows are run once more on the way up: a stage's highest row is
// not, nor is any of the highest stage. Of m_j rows in stage j from the top, at most max (S - j + m_j - 1) inputs
// are kept.
#pragma once
#include "kernels/transformer/stream.h"
#include "methods/columns.h"
#include "methods/method.h"
#include "methods/offload.h"
#include "methods/stages.h"

struct row_walk {
    size_t chunk, head_chunk; // tokens of a cell on the way up
    enum place inputs;        // where the rows' inputs are kept
    const struct stage_options *stages;
    // grad: [T B, d], the gradient of the row's output, becomes that of its input x: [T B, d].
    void (*backward)(struct step *step, size_t layer, struct stream *x, struct stream *grad);
};

// The stages asked for: a row's input costs what a stage's does.
struct stages row_stages(const struct model *model, const struct stage_options *options);
// Both tensors are on the device.
void row_walk(struct step *step, const struct row_walk *walk);
// Bytes per token of the most rows' inputs, and the gradient, that it keeps at any moment.
double row_walk_kept(const struct model *model, const struct stage_options *stages);
