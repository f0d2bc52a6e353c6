// Chunk work: one chunk of a segment's layers, as SeCO and SpaCO run it: left to right without activations, then
// right to left.
#pragma once
#include "kernels/layers/kv_store.h"
#include "methods/schedule/segments.h"
#include "methods/schedule/step.h"

enum inner { INNER_NONE, INNER_CHECKPOINT };

// Options of methods that schedule chunks; their structs begin with this.
struct chunk_options {
    size_t chunk, head_chunk;
    enum keep keep;
    enum inner inner;
    struct segment_options segments;
    unsigned offload;
    size_t first_chunk; // SeCO's alone
};

#define OPTION_INNER(options)                                                                                      \
    {                                                                                                              \
        .name = "inner", .type = OPTION_CHOICE, .offset = offsetof(options, inner), .initial = INNER_NONE,         \
        .choices = OPTION_CHOICES("none", "checkpoint"),                                                           \
        .help = "inside a chunk, keep every cell's activations, or only its input", .nth = option_nth_choice       \
    }

// Outputs of a chunk in the first pass besides its layers' keys and values: the highest layer's output; or the
// head's, the chunk's share of the loss or of the objective's sums; or the highest layer's choices of experts.
enum chunk_output { CHUNK_KV, CHUNK_CHOICES, CHUNK_HIDDEN, CHUNK_LOSS };

// The layer after a chunk: its weights, keys and values are prefetched during the chunk's last layer.
struct chunk_next {
    bool any;           // otherwise none
    size_t layer;       // the lowest of the next chunk
    bool same;          // in the same segment: `rows` rows of that layer's keys and values are read
    size_t start, rows; // rows of tokens before the next chunk
};

// First pass over a chunk: writes keys and values of the segment's layers to kv. x: [C B, d], the lowest layer's
// input; unused at layer 0, whose input is the embedding. y: [C B, d], with CHUNK_HIDDEN the highest layer's
// output. With CHUNK_KV the highest layer stops after its keys and values.
void chunk_forward(struct step *step, struct segment segment, struct span chunk, struct kv_store *kv,
                   struct tensor x, struct tensor y, enum chunk_output output, struct chunk_next next);

// Second pass over a chunk.
struct chunk_work {
    struct segment segment;
    struct span chunk;
    struct kv_store *kv; // of the segment's layers, with gradients
    bool cached;         // its keys and values are already in kv
    bool first, last;    // no chunk of the segment runs before, after it
    struct chunk_next next;
    // The tokens whose carries take gradients, contiguous in kv; the last segment is the chunk's own. Their tensors
    // are set layer by layer; whole: all up to the chunk's end, in one segment, which is set layer by layer.
    bool whole;
    struct carry_segment *key_segments;
    size_t key_segment_count;
    struct loss_weights weights;
    // [C B, d]: x as above; y becomes the highest layer's output, if it is a tensor and there is a layer above;
    // grad is that output's gradient, from the head if there is no layer above, and becomes x's, which the
    // embedding takes at layer 0. grad may be y; under the head it may be x.
    struct tensor x, y, grad;
    // Between the two halves: [end + 1] and [end], by layer.
    struct tensor *inputs;
    struct activations *kept;
};
// The first half recomputes the chunk's cells and keeps their activations (with inner checkpoint: their inputs);
// the second runs the layers backward.
void chunk_rebuild(struct step *step, struct chunk_work *work);
void chunk_descend(struct step *step, struct chunk_work *work);
