// Row: one layer of the whole context; what checkpoint and StreamBP walk, upward keeping rows' inputs, then
// downward. With one stage every row's input is kept; with several, while the rows go up, those of the stages, and
// then of one stage after another from the highest those of its rows; the embedding is looked up again. Of L layers
// in S stages, the highest of m, L - S - (m - 1) rows are run once more on the way up: a stage's highest row is
// not, nor is any of the highest stage. Of m_j rows in stage j from the top, at most max (S - j + m_j - 1) inputs
// are kept. With attention = kept what attention gave is kept, too, of every row that a forward runs right before
// its stage is walked: all but the highest of each stage but the highest (Li et al. 2024, arXiv 2310.03294).
#pragma once
#include "kernels/offload/stream.h"
#include "methods/schedule/columns.h"
#include "methods/schedule/offload.h"
#include "methods/schedule/stages.h"
#include "methods/schedule/step.h"

// What attention gives in a row's forward, for a backward that rebuilds the row: computed once more, or kept.
enum row_attention { ROW_ATTENTION_REBUILT, ROW_ATTENTION_KEPT };

#define OPTION_ATTENTION(options)                                                                                  \
    {                                                                                                              \
        .name = "attention", .type = OPTION_CHOICE, .offset = offsetof(options, attention),                        \
        .choices = OPTION_CHOICES("rebuilt", "kept"),                                                              \
        .help = "what attention gives: rebuilt with its row, or kept from the forward (LightSeq's checkpoint at "  \
                "attention's output)",                                                                             \
        .nth = option_nth_choice                                                                                   \
    }

// What attention gave in a row: o: [T B, H D], logsumexp: [T B, H].
struct kept_attention {
    bool kept;
    struct tensor o, logsumexp;
};

struct row_walk {
    size_t chunk, head_chunk; // tokens of a cell on the way up
    enum place kept;          // where the rows' inputs are kept, and what attention gave
    enum row_attention attention;
    const struct stage_options *stages;
    // grad: [T B, d], the gradient of the row's output, becomes that of its input x: [T B, d]. next: the unit that
    // the walk goes to then, to be prefetched.
    void (*backward)(struct step *step, size_t layer, struct stream *x, struct kept_attention attention,
                     struct stream *grad, size_t next);
};

// The stages asked for: a row's input costs what a stage's does, and where attention is kept that besides.
struct stages row_stages(const struct model *model, const struct stage_options *options,
                         enum row_attention attention);
// The unit that the walk goes to after the backward of row l of stage s: the row below; from a stage's lowest row
// the lowest of the stage below, whose rows are rebuilt first.
size_t row_next(const struct stages *stages, size_t s, size_t l);
// The cell of a chunk, of which attention's part is to be written, or written; the cell's own if none is kept.
struct activations row_cell(struct kept_attention attention, struct span chunk, size_t batch,
                            enum attention_output output);
// Both tensors are on the device.
void row_walk(struct step *step, const struct row_walk *walk);
// Bytes per token of the most that it keeps at any moment: rows' inputs, what attention gave, and the gradient.
double row_walk_kept(const struct model *model, const struct stage_options *stages, enum row_attention attention);
