// Chunk schedule: SeCO's over all chunks, SpaCO's over some. A first pass from the left keeps only keys and values;
// a second pass runs the drawn chunks from the right. Other chunks may run backward at once, in the first pass,
// before any chunk to their right: they add to the drawn chunks' gradients of keys and values, and take none. With
// segments the first pass runs segment by segment and keeps the segments' inputs [T B, d]; then each segment, from
// the highest, has its own two passes, which keep only its layers' keys and values. The gradient between two
// segments replaces the highest one's input. Per token: (S - 1) d e and the longest segment's keys, values and
// gradients. Extra work over one segment, for each segment of m layers but the highest: the forward of m - 1 layers
// and keys and values of the highest of them, in the last chunk of all m layers; minus one down-projection. With
// offload a layer's keys and values are on the host, and if every chunk is drawn their gradients too. A cell copies
// in the keys and values to its left, once in the first pass and twice in the second, and the gradients, which
// return: T / 2 C L (3 2 G D e + 2 2 G D a) bytes per token as T / C grows. The device holds two layers'.
#pragma once
#include "methods/schedule/chunk_work.h"
#include "methods/schedule/chunks.h"

struct chunk_schedule {
    struct chunks chunks;
    struct index_list drawn; // left to right
    // [drawn] factors of the chunk's loss, and of the gradient that chunks to the right added to its keys and
    // values; NULL: 1.
    const double *loss_factor, *kv_factor;
    // Left to right, not drawn, to the left of the last drawn one: run backward in the first pass, their loss times
    // at_once_factor. Then the layers are one segment, and the objective gathers nothing.
    struct index_list at_once;
    double at_once_factor;
    enum state_passage passage; // of states' gradients (kernels/model/carry.h)
    double share;               // expected share of drawn chunks
    bool all_losses;            // the first pass covers all chunks and adds the loss of those not drawn
    // Every chunk is drawn, and the gradients of the keys to the left are one segment.
    bool whole;
};

void chunk_schedule_run(struct step *step, const struct chunk_schedule *schedule);
// Bytes per token of context kept on the device: segments' inputs, keys and values up to the last drawn chunk, and
// gradients of the drawn chunks' keys and values; with offload, for two layers (one if segments have one) instead
// of all, except gradients that are not `whole`.
double chunk_schedule_kept(const struct model *model, const struct chunk_options *options,
                           const struct chunk_schedule *schedule);
