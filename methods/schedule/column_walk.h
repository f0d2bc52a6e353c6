// Column walk: SeCO's over all columns, SpaCO's over some. A first pass from the left keeps keys and values alone;
// a second one walks the drawn columns from the right.
// In stages the first pass goes stage by stage and keeps the stages' inputs [T B, d]; then each stage, from the
// highest, has the two passes of its own, which keep the keys and values of its layers alone. The gradient between
// two stages takes the place of the highest one's input. Per token: (S - 1) d e and the longest stage's keys,
// values and gradients. More than with one stage, for each stage of m rows but the highest: the forward of m - 1
// rows and keys and values of the highest of them, in the last column of all m rows; less one down-projection. With
// offload a layer's keys and values lie on the host, and where every column is drawn their gradients, too. A cell
// brings the keys and values to its left, in the first pass once and in the second twice, and the gradients, which
// go back: T / 2 C L (3 2 G D e + 2 2 G D a) bytes per token as T / C grows. The device holds two layers'.
#pragma once
#include "methods/schedule/column.h"
#include "methods/schedule/columns.h"

struct column_walk {
    struct columns columns;
    struct index_list drawn; // left to right
    // [drawn] of the column's loss, and of the gradient that comes in through its keys and values, which the
    // columns to the right left; NULL: 1.
    const double *loss_factor, *kv_factor;
    double share;    // of the columns that is expected to be drawn
    bool all_losses; // the first pass goes to the end, and takes the loss of what is not drawn
    // Every column is drawn, and the gradients of the keys to the left are one segment.
    bool whole;
};

void column_walk(struct step *step, const struct column_walk *walk);
// Bytes per token of the context that it keeps on the device: of stages' inputs, keys and values those up to the
// last drawn column, of their gradients those of the drawn columns; with offload, of two layers (of one, if stages
// have no more) in place of all, but of gradients that are not `whole` all.
double column_walk_kept(const struct model *model, const struct column_options *options,
                        const struct column_walk *walk);
