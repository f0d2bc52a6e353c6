// Layer: one layer of the whole context; what checkpoint and StreamBP walk, upward keeping layers' inputs, then
// downward. With one segment every layer's input is kept; with several, while the layers go up, those of the
// segments, and then of one segment after another from the highest those of its layers; the embedding is looked up
// again. Of L layers in S segments, the highest of m, L - S - (m - 1) layers are run once more on the way up: a
// stage's highest layer is not, nor is any of the highest segment. Of m_j layers in segment j from the top, at most
// max (S - j + m_j - 1) inputs are kept. With attention = kept what attention gave is kept, too, of every layer
// that a forward runs right before its segment is walked: all but the highest of each segment but the highest (Li
// et al. 2024, arXiv 2310.03294).
#pragma once
#include "kernels/offload/stream.h"
#include "methods/schedule/chunks.h"
#include "methods/schedule/offload.h"
#include "methods/schedule/segments.h"
#include "methods/schedule/step.h"

// What attention gives in a layer's forward, for a backward that rebuilds the layer: computed once more, or kept.
enum layer_attention { LAYER_ATTENTION_REBUILT, LAYER_ATTENTION_KEPT };

#define OPTION_ATTENTION(options)                                                                                  \
    {                                                                                                              \
        .name = "attention", .type = OPTION_CHOICE, .offset = offsetof(options, attention),                        \
        .choices = OPTION_CHOICES("rebuilt", "kept"),                                                              \
        .help = "attention's output: rebuilt with its layer, or kept from the forward (LightSeq's checkpoint at "  \
                "attention's output)",                                                                             \
        .nth = option_nth_choice                                                                                   \
    }

// What attention gave in a layer: o: [T B, H D], logsumexp: [T B, H].
struct kept_attention {
    bool kept;
    struct tensor o, logsumexp;
};

struct layer_schedule {
    size_t chunk, head_chunk; // tokens of a cell on the way up
    enum place kept;          // where the layers' inputs are kept, and what attention gave
    enum layer_attention attention;
    const struct segment_options *segments;
    // grad: [T B, d], the gradient of the layer's output, becomes that of its input x: [T B, d]. next: the unit
    // that the walk goes to then, to be prefetched.
    void (*backward)(struct step *step, size_t layer, struct stream *x, struct kept_attention attention,
                     struct stream *grad, size_t next);
};

// The segments asked for: a layer's input costs what a stage's does, and where attention is kept that besides.
struct segments layer_segments(const struct model *model, const struct segment_options *options,
                               enum layer_attention attention);
// The unit that the walk goes to after the backward of layer l of segment s: the layer below; from a stage's lowest
// layer the lowest of the segment below, whose layers are rebuilt first.
size_t layer_next(const struct segments *segments, size_t s, size_t l);
// The cell of a chunk, of which attention's part is to be written, or written; the cell's own if none is kept.
struct activations layer_cell(struct kept_attention attention, struct span chunk, size_t batch,
                              enum attention_output output);
// Both tensors are on the device.
void layer_schedule_run(struct step *step, const struct layer_schedule *schedule);
// Bytes per token of the most that it keeps at any moment: layers' inputs, what attention gave, and the gradient.
double layer_schedule_kept(const struct model *model, const struct segment_options *segments,
                           enum layer_attention attention);
