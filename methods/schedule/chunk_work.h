// Chunk: a stage's layers of one chunk; what SeCO and SpaCO walk, left to right without keeping, then right to
// left.
#pragma once
#include "kernels/layers/kv_store.h"
#include "methods/schedule/offload.h"
#include "methods/schedule/segments.h"
#include "methods/schedule/step.h"

enum inner { INNER_NONE, INNER_CHECKPOINT };

// What a method that walks chunks is asked; its struct begins with this.
struct chunk_options {
    size_t chunk, head_chunk;
    enum keep keep;
    enum inner inner;
    struct segment_options segments;
    enum chunk_offload offload;
};

#define OPTION_INNER(options)                                                                                      \
    {                                                                                                              \
        .name = "inner", .type = OPTION_CHOICE, .offset = offsetof(options, inner), .initial = INNER_NONE,         \
        .choices = OPTION_CHOICES("none", "checkpoint"),                                                           \
        .help = "inside a chunk: keep every cell's activations, or its input alone", .nth = option_nth_choice      \
    }

// What the first pass wants of a chunk besides the keys and values of its layers: the output of the highest; or
// that of the head, the chunk's share of the loss or what the objective gathers of it.
enum chunk_output { CHUNK_KV, CHUNK_HIDDEN, CHUNK_LOSS };

// Where a walk goes after a chunk: its weights, and keys and values, are prefetched beside the chunk's last
// layer.
struct chunk_next {
    bool any;     // else to no layer
    size_t layer; // the lowest of the next chunk
    bool same;    // which is of the same segment, and reads so many rows of that layer's keys and values
    size_t rows;
};

// First pass over a chunk: keys and values of every layer of the segment into kv. x: [C B, d], the input of the
// lowest; not read at layer 0, whose input is the embedding. y: [C B, d], with CHUNK_HIDDEN the output of the
// highest. With CHUNK_KV the highest layer stops after its keys and values.
void chunk_forward(struct step *step, struct segment segment, struct span chunk, struct kv_store *kv,
                   struct tensor x, struct tensor y, enum chunk_output output, struct chunk_next next);

// Second pass over a chunk.
struct chunk_work {
    struct segment segment;
    struct span chunk;
    struct kv_store *kv; // of the stage's layers, with gradients
    bool cached;         // its keys and values are in kv already
    bool first, last;    // no chunk of the segment is walked before it, after it
    struct chunk_next next;
    // The keys that take gradients, which lie side by side in kv's; the last holds the chunk's own. Whose tensors
    // they are is set layer by layer.
    struct key_segment *key_segments;
    size_t key_segment_count;
    struct loss_weights weights;
    // [C B, d]: x as above; y becomes the output of the highest layer, if it is a tensor and there is a layer
    // above; grad, the gradient of that output, which the head makes if there is no layer above, becomes that of x,
    // which the embedding takes at layer 0. grad may be y; under the head it may be x.
    struct tensor x, y, grad;
    // Between the two halves: [end + 1] and [end], by layer.
    struct tensor *inputs;
    struct activations *kept;
};
// The first half rebuilds the chunk's cells keeping their activations (with inner checkpoint: their inputs), the
// second walks the layers downward.
void chunk_rebuild(struct step *step, struct chunk_work *work);
void chunk_descend(struct step *step, struct chunk_work *work);
