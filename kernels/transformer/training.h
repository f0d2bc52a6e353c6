// Training: where the gradients of what trains, and the optimizer's state, are kept between uses: on the device, or
// on the host. There a gradient goes when its unit is done, once per step; to the device it comes before it is
// first added to, unless it is zero, which is then made there; and weights, gradients and state come to be updated,
// a unit at a time: the last one's go while the next one's come.
#pragma once
#include "kernels/transformer/model.h"

// Allocates the gradient and the state of a parameter, if it trains, where they are kept; the state is zero. And
// frees them.
void training_new(struct model *model, struct parameter *parameter);
void training_free(struct model *model, struct parameter *parameter);

// The unit's gradients can be added to from here to gradients_leave.
void gradients_enter(struct model *model, size_t unit);
// They are on their way to the host from here on. Their memory is released when the next unit's leave, or settled.
// Where updates are made in the walk, the unit is updated, if an update is under way, and they are freed.
void gradients_leave(struct model *model, size_t unit);
void gradients_settle(struct model *model);
// Frees those that live in the walk alone, wherever a walk without an update left them.
void gradients_drop(struct model *model);

// Lets the model's optimizer update every parameter that trains, with its value, gradient and state on the device;
// of these all but the gradient may be changed.
void training_update(struct model *model);
