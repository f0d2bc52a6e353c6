// Cell memo: cells on a device without data that remembers what each cost (kernels/device/memo.h).
#pragma once
#include "kernels/device/memo.h"
#include "kernels/model/model.h"

enum cell_part { CELL_KV_PROJECT, CELL_KV_PROJECT_BLOCK, CELL_FORWARD, CELL_BACKWARD_MLP, CELL_BACKWARD_MIXER };

// What the cost of a part depends on, besides the model and what the activations hold already. No padding: all of
// it is compared.
struct cell_key {
    size_t part, rows;
    size_t how, ahead;           // enum keep; of a projection: what the forward reads, too
    size_t has_output, in_place; // of a forward: y is a tensor; it is x
    // Of the mixer: runs of tokens, those before them, struct batch's number of its documents. start is 0 where it
    // does not matter.
    size_t start, count, further_start, further_count;
    uint64_t documents;
    size_t segment_start, segment_count, segment_dtype, scaled;
    uint64_t training;                    // of a backward: unit_training
    size_t descends;                      // of a backward: to the input
    size_t alike;                         // the layer: struct layer's
    size_t held, output, without_adapter; // set by cell_memo_begin
};

// As memo_begin; of a part that is known the activations, those it frees and those it keeps, are then as it would
// have left them, but for what a->x is. Of a device that has failed every part is known.
bool cell_memo_begin(struct model *model, struct memo_use *use, struct cell_key key, struct activations *a);
void cell_memo_end(struct model *model, struct memo_use *use, struct activations *a);
