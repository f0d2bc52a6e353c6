// Unit: a walk's use of the parameters that it takes together (unit_parameters.h), and who is told of it.
#pragma once
#include "kernels/transformer/unit_parameters.h"

#define UNIT_NONE SIZE_MAX // nothing is prefetched

// Whom a model's steps tell. Functions may be NULL; they are called after the device has failed, too.
struct unit_listener {
    // Between the two alone are the values of the unit's parameters read. A unit is released before it is acquired
    // again. A walk of whole rows acquires a layer once per row and pass, a walk of columns once per cell.
    void (*acquire)(struct unit_listener *listener, struct model *model, size_t unit);
    void (*release)(struct unit_listener *listener, struct model *model, size_t unit);
    // This step adds nothing more to the gradient of the unit's parameters, nor reads their values: each unit once
    // per step. Whole rows are done one after another, from the head down; where columns are walked, all units
    // within the last one.
    void (*done)(struct unit_listener *listener, struct model *model, size_t unit);
};
// The unit's values are the next to be read: those that are kept on the host, or with overlap in shares, are on
// their way from here on. Every rank says it where the others do. A walk says it of the unit that it goes to next,
// before the cells of the one at which it is: of the row above before those that compute its input, of the row
// below before those that compute its gradient; at the border of two columns or stages of where the next one
// begins, which may be the same unit. Of the layer at either end the embedding and the head say it.
void unit_prefetch(struct model *model, size_t unit);
void unit_acquire(struct model *model, size_t unit);
void unit_release(struct model *model, size_t unit);
// The unit's gradients are added to between this and unit_done alone; cells and the head say it, as often as they
// add.
void unit_add(struct model *model, size_t unit);
void unit_done(struct model *model, size_t unit);
// The walk is over: what is still on its way between the places, or between ranks, has been waited for.
void unit_settle(struct model *model);
// unit_done of the layers below this one, downwards: those that a backward pass does not come to.
void unit_done_below(struct model *model, size_t layer);
// unit_done of every unit, in the same order: a step that found nothing to add.
void unit_done_all(struct model *model);
