// Column walk: SeCO's over all columns, SpaCO's over some. A first pass from the left keeps keys and values alone;
// a second one walks the drawn columns from the right.
#pragma once
#include "methods/column.h"
#include "methods/columns.h"

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
// Bytes per token that it keeps on the device: of stages' inputs, keys and values, and their gradients of this
// share of the tokens; with offload, of two layers in place of all, but of gradients that are not `whole` all.
double column_walk_kept(const struct model *model, const struct column_options *options, double share, bool whole);
