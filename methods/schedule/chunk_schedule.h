// Chunk walk: SeCO's over all chunks, SpaCO's over some. A first pass from the left keeps keys and values alone;
// a second one walks the drawn chunks from the right.
// In segments the first pass goes segment by segment and keeps the stages' inputs [T B, d]; then each segment, from
// the highest, has the two passes of its own, which keep the keys and values of its layers alone. The gradient
// between two segments takes the place of the highest one's input. Per token: (S - 1) d e and the longest stage's
// keys, values and gradients. More than with one segment, for each segment of m layers but the highest: the forward
// of m - 1 layers and keys and values of the highest of them, in the last chunk of all m layers; less one
// down-projection. With offload a layer's keys and values lie on the host, and where every chunk is drawn their
// gradients, too. A cell brings the keys and values to its left, in the first pass once and in the second twice,
// and the gradients, which go back: T / 2 C L (3 2 G D e + 2 2 G D a) bytes per token as T / C grows. The device
// holds two layers'.
#pragma once
#include "methods/schedule/chunk_work.h"
#include "methods/schedule/chunks.h"

struct chunk_schedule {
    struct chunks chunks;
    struct index_list drawn; // left to right
    // [drawn] of the chunk's loss, and of the gradient that comes in through its keys and values, which the
    // chunks to the right left; NULL: 1.
    const double *loss_factor, *kv_factor;
    double share;    // of the chunks that is expected to be drawn
    bool all_losses; // the first pass goes to the end, and takes the loss of what is not drawn
    // Every chunk is drawn, and the gradients of the keys to the left are one segment.
    bool whole;
};

void chunk_schedule_run(struct step *step, const struct chunk_schedule *schedule);
// Bytes per token of the context that it keeps on the device: of stages' inputs, keys and values those up to the
// last drawn chunk, of their gradients those of the drawn chunks; with offload, of two layers (of one, if segments
// have no more) in place of all, but of gradients that are not `whole` all.
double chunk_schedule_kept(const struct model *model, const struct chunk_options *options,
                           const struct chunk_schedule *schedule);
