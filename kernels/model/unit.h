// Unit: parameters that a step uses together and completes the gradient of together (unit_parameters.h): the
// embedding, a layer, or the head. Layers and methods say which unit they need, in this order; its keeper, a
// trainer (trainer.h), has the values and gradients there in time.
//
//   1. unit_prefetch   the unit's values are the next to be read
//   2. unit_acquire    its values can be read from here on
//   3. unit_add        its gradients can be added to from here on; layers say it, as often as they add
//   4. unit_release    its values are not read until it is acquired again
//   5. unit_done       its gradients are complete: this step adds nothing more to them
//   6. unit_settle     the step is over: nothing is on its way any more
//
// 1 to 4 come as often as a schedule needs the unit (a schedule of whole layers acquires a layer once per layer and
// pass, one of chunks once per cell), 5 once per step and unit, 6 at the end. A forward alone has no 3 and 5.
#pragma once
#include "kernels/model/unit_parameters.h"

#define UNIT_NONE SIZE_MAX // nothing is prefetched

// Keeper of a model's values and gradients; the functions below call it.
struct unit_keeper {
    void (*prefetch)(struct unit_keeper *keeper, size_t unit);
    void (*acquire)(struct unit_keeper *keeper, size_t unit);
    void (*add)(struct unit_keeper *keeper, size_t unit);
    void (*release)(struct unit_keeper *keeper, size_t unit);
    void (*done)(struct unit_keeper *keeper, size_t unit);
    void (*settle)(struct unit_keeper *keeper);
    void (*sum_ends)(struct unit_keeper *keeper);
    bool gradients_stay; // complete ones stay where they are until the step is over
};

// Listener to a model's steps, also after the device has failed. Functions may be NULL.
struct unit_listener {
    void (*acquire)(struct unit_listener *listener, struct model *model, size_t unit);
    void (*release)(struct unit_listener *listener, struct model *model, size_t unit);
    // A full-row schedule completes units from the head down, a chunked one all of them within its last chunk.
    void (*done)(struct unit_listener *listener, struct model *model, size_t unit);
};

// Starts copying values from the host, or with overlap gathering their shares. Every rank calls it at the same
// place. A schedule prefetches the next unit before it runs the present one's cells: the layer above before the
// cells that compute its input, the layer below before those that compute its gradient; at the border of two
// chunks or segments the first unit of the next one, which may be the same. The embedding and the head prefetch
// the layer at either end.
void unit_prefetch(struct model *model, size_t unit);
// A unit is released before it is acquired again.
void unit_acquire(struct model *model, size_t unit);
void unit_add(struct model *model, size_t unit);
void unit_release(struct model *model, size_t unit);
void unit_done(struct model *model, size_t unit);
// unit_done of the layers below this one, downwards: a backward pass does not reach them.
void unit_done_below(struct model *model, size_t layer);
// unit_done of every unit, in the same order: a step that found nothing to add.
void unit_done_all(struct model *model);
void unit_settle(struct model *model);
// After unit_settle: the two ends of a pipeline add their gradients of a tied embedding, the lowest rank's part
// first; both get the sum.
void unit_sum_ends(struct model *model);
