// Cell memo: remembers the costs of cells on a device without data (kernels/device/memo.h).
#pragma once
#include "kernels/device/memo.h"
#include "kernels/model/model.h"

enum cell_part { CELL_KV_PROJECT, CELL_KV_PROJECT_BLOCK, CELL_FORWARD, CELL_BACKWARD_MLP, CELL_BACKWARD_MIXER };

// Key of a part's cost, besides the model and the activations' present tensors. No padding: the bytes are
// compared.
struct cell_key {
    size_t part, rows;
    size_t how, ahead;           // enum keep; of a projection: what the forward reads, too
    size_t has_output, in_place; // of a forward: y is a tensor; it is x. Of a projection: its state is kept
    // For the mixer: its runs of tokens, their starts (0 if irrelevant), and struct batch's number for its
    // documents.
    size_t start, count, further_start, further_count;
    uint64_t documents;
    size_t segment_start, segment_count, segment_dtype, scaled;
    // For states, if not all chunks are drawn: rows of the gap that the chunk is in or that is to its right,
    // whether the gap begins before the chunk or with it, how gradients pass (1 + enum state_passage), and whether
    // the state moves on.
    size_t gap, gap_before, gap_begins, passage, moves_on;
    size_t choices;                       // of experts: 0: kept by no step; else a sum of what is done with them
    uint64_t training;                    // of a backward: unit_training
    size_t descends;                      // of a backward: to the input
    size_t alike;                         // the layer: struct layer's
    size_t held, output, without_adapter; // set by cell_memo_begin
};

// As memo_begin; for a known part it also frees and allocates the activations as the part would, except a->x. On a
// failed device every part is known.
bool cell_memo_begin(struct model *model, struct memo_use *use, struct cell_key key, struct activations *a);
void cell_memo_end(struct model *model, struct memo_use *use, struct activations *a);
