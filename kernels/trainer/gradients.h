// Gradients: where the sums of what trains are kept between uses: on the device, or on the host; whole, or in
// shares (bucket.h). On the host a gradient is copied back before it is first added to, unless it is zero, which is
// then made on the device, and offloaded when its unit is done, once per step. Ranks that take the same layers sum
// a unit's gradients when it is done.
#pragma once
#include "kernels/trainer/bucket.h"

// Gradients of a unit that are kept on the host: they count as zero, whatever is kept; they are added to on the
// device; they are on their way back.
struct transit {
    bool zero, adding, offloading;
    struct event out;
};

struct gradients {
    struct model *model;
    struct buckets *buckets;
    enum place place;
    struct transit *transits; // by unit
    // Updates a unit whose gradients are complete and live in the walk alone; they are then freed. False: there is
    // no update, and they stay.
    bool (*update)(void *updater, size_t unit);
    void *updater;
};

void gradients_open(struct gradients *gradients, struct model *model, struct buckets *buckets, enum place place);
void gradients_close(struct gradients *gradients);

// Allocates the gradient of a parameter that trains, where it is kept, not set; nothing where it is in a bucket or
// lives in the walk alone.
void gradients_new_one(struct gradients *gradients, struct parameter *parameter);
// Zeroes all that train, and allocates those that are not there; those that live in the walk alone are freed.
void gradients_zero(struct gradients *gradients);
// The unit's gradients can be added to from here to gradients_release.
void gradients_acquire(struct gradients *gradients, size_t unit);
// Sums them over ranks, and starts to copy them to the host. Their memory is freed when the next unit's are
// released, or settled. Ranks that overlap sums with what they compute do all of this when the sum is there: while
// the next units' are released, or settled.
void gradients_release(struct gradients *gradients, size_t unit);
void gradients_settle(struct gradients *gradients);
// Adds the parts of a tied table's gradient that both ends of a pipeline have, the lowest rank's first, after the
// last walk of an update.
void gradients_sum_ends(struct gradients *gradients);
