// Gradients: storage of gradient sums between uses: on the device or the host, whole or in shares (bucket.h). A
// gradient on the host is copied back before its first addition, unless it is zero, which is created on the device,
// and offloaded when its unit is done, once per step. Ranks with the same layers sum a unit's gradients when it is
// done.
#pragma once
#include "kernels/trainer/bucket.h"

// State of a unit's gradients on the host: `zero`: they count as zero, whatever is stored; they are being added to
// on the device; they are being copied back.
struct transit {
    bool zero, adding, offloading;
    struct event out;
};

struct gradients {
    struct model *model;
    struct buckets *buckets;
    enum place place;
    struct transit *transits; // by unit
    // Updates a unit with complete gradients that live only within the backward pass; they are then freed. Returns
    // false if there is no update, and they stay.
    bool (*update)(void *updater, size_t unit);
    void *updater;
};

void gradients_open(struct gradients *gradients, struct model *model, struct buckets *buckets, enum place place);
void gradients_close(struct gradients *gradients);

// Allocates a trainable parameter's gradient in its place, uninitialised; does nothing if it is in a bucket or
// lives only within the backward pass.
void gradients_new_one(struct gradients *gradients, struct parameter *parameter);
// Zeroes all gradients and allocates missing ones; frees those that live only within the backward pass.
void gradients_zero(struct gradients *gradients);
// Makes the unit's gradients ready for additions until gradients_release.
void gradients_acquire(struct gradients *gradients, size_t unit);
// Sums them over ranks and starts copying them to the host. Their memory is freed when the next unit's are
// released, or settled. With overlap all of this happens when the sum is complete: while later units' are released,
// or settled.
void gradients_release(struct gradients *gradients, size_t unit);
void gradients_settle(struct gradients *gradients);
// Sums the tied embedding's gradient over both ends of a pipeline, lowest rank first, after the last micro-batch of
// an update.
void gradients_sum_ends(struct gradients *gradients);
