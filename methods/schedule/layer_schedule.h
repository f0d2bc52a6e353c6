// Layer schedule: checkpoint's and StreamBP's, one layer of the whole context at a time: upward keeping layers'
// inputs, then downward. With one segment every layer's input is kept. With several, the way up keeps the segments'
// inputs; then, from the highest, each segment's layers' inputs are recomputed; the embedding is looked up again.
// With L layers in S segments, the highest of m, L - S - (m - 1) layers run once more: all but each segment's
// highest layer and the highest segment's. With m_j layers in segment j from the top, at most max (S - j + m_j - 1)
// inputs are kept. With attention = kept, attention's output is kept too for every layer whose forward directly
// precedes its segment's backward: all but the highest of each segment but the highest (Li et al. 2024, arXiv
// 2310.03294).
#pragma once
#include "kernels/layers/forward.h"
#include "kernels/offload/stream.h"
#include "methods/schedule/chunks.h"
#include "methods/schedule/segments.h"
#include "methods/schedule/step.h"

// Attention in the recomputation of a layer: computed again, or kept from the forward.
enum layer_attention { LAYER_ATTENTION_REBUILT, LAYER_ATTENTION_KEPT };

#define OPTION_ATTENTION(options)                                                                                  \
    {                                                                                                              \
        .name = "attention", .type = OPTION_CHOICE, .offset = offsetof(options, attention),                        \
        .choices = OPTION_CHOICES("rebuilt", "kept"),                                                              \
        .help = "attention's output: rebuilt with its layer, or kept from the forward (LightSeq's checkpoint at "  \
                "attention's output)",                                                                             \
        .nth = option_nth_choice                                                                                   \
    }

struct layer_schedule {
    size_t chunk, head_chunk; // tokens of a cell in the forward
    enum place kept;          // where layers' inputs and attention's outputs are kept
    enum layer_attention attention;
    const struct segment_options *segments;
    // grad: [T B, d], the gradient of the layer's output, becomes that of its input x: [T B, d]. next: the unit
    // that follows, to be prefetched.
    void (*backward)(struct step *step, size_t layer, struct stream *x, struct kept_outputs attention,
                     struct stream *grad, size_t next);
};

// The requested segments, with a layer's input costing as much as a segment's, plus attention's output if kept.
struct segments layer_segments(const struct model *model, const struct segment_options *options,
                               enum layer_attention attention);
// The unit after the backward of layer l in segment s: the layer below; after a segment's lowest layer, the lowest
// of the segment below, whose layers are recomputed first.
size_t layer_next(const struct segments *segments, size_t s, size_t l);
// Both tensors are on the device.
void layer_schedule_run(struct step *step, const struct layer_schedule *schedule);
// Maximum bytes per token that it keeps: layers' inputs, attention's outputs, and the gradient.
double layer_schedule_kept(const struct model *model, const struct segment_options *segments,
                           enum layer_attention attention);
