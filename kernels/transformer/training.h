// Training: where the gradients of what trains, and the optimizer's state, are kept between uses: on the device, or
// on the host. There a gradient is offloaded when its unit is done, once per step; it is copied back before it is
// first added to, unless it is zero, which is then made on the device; and weights, gradients and state are
// prefetched to be updated, a unit at a time, while the last one's are offloaded. Ranks that take the same layers
// sum a unit's gradients when it is done (kernels/transformer/bucket.h).
#pragma once
#include "kernels/transformer/model.h"

// Allocates gradients and projectors of what trains of a unit, and a state where there is none of what has one,
// where they are kept; state and projectors are zero. And frees them; with keep, all but the state of what keeps
// it.
void training_new(struct model *model, size_t unit);
void training_free(struct model *model, size_t unit, bool keep);

// The gradients get the shapes that the update under way sums them in; where there is none, the parameters'. They
// are then not set.
void gradients_shape(struct model *model);
// The unit's gradients can be added to from here to gradients_release.
void gradients_acquire(struct model *model, size_t unit);
// They are summed over ranks, and on their way to the host from here on. Their memory is freed when the next unit's
// are released, or settled. Where updates are made in the walk, the unit is updated, if an update is under way, and
// they are freed. Where ranks overlap sums with what they compute, all of this happens when the sum is there: while
// the next units' are released, or settled.
void gradients_release(struct model *model, size_t unit);
void gradients_settle(struct model *model);
// Frees those that live in the walk alone, wherever a walk without an update left them.
void gradients_drop(struct model *model);

// Lets the model's optimizer update every parameter that trains, with its value, gradient and state on the device;
// of these all but the gradient may be changed.
void training_update(struct model *model);
