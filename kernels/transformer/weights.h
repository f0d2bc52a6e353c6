// Weights: how and where a model's are kept between uses: as they are, or those that do not train quantised; on the
// device or on the host; by each of several ranks, or in shares. What is kept otherwise than it is used is there as
// it is used only while its unit is acquired (kernels/transformer/unit.h, which calls these); in between its value
// is no tensor, but for its shape.
#pragma once
#include "kernels/transformer/model.h"

// Allocates a unit's weights in the form that they are kept in, not yet set; and frees them.
void weights_new(struct model *model, size_t unit);
void weights_free(struct model *model, size_t unit);
// Weights [first, first + count) of a parameter, in row-major order, become the values, rounded to `rounding`;
// where they are quantised what the nearest codes stand for, rounded again. The values are spent. first: a multiple
// of QUANTISATION_BLOCK; count too, unless it reaches the end. Of weights that ranks have in shares only those in
// this one's are kept. The unit must not be acquired.
void weights_write(struct model *model, struct parameter *parameter, size_t first, size_t count, double *values,
                   enum dtype rounding);

// The unit's weights are on their way from the host, or with overlap from the ranks that have shares of them, from
// here on, and take their memory, for the next weights_acquire; of the host's also while the unit is acquired.
void weights_prefetch(struct model *model, size_t unit);
// Its values can be read from here to weights_release.
void weights_acquire(struct model *model, size_t unit);
void weights_release(struct model *model, size_t unit);
// Those that were prefetched and not acquired are let go.
void weights_settle(struct model *model);

// The steps of these for one parameter, without their waits, for an optimizer (kernels/transformer/training.h).
// Asks for the copy in; makes the value of it; asks for the copy of the value back, where it is not quantised;
// frees the value.
void weights_prefetch_one(struct model *model, struct parameter *parameter);
void weights_acquire_one(struct model *model, struct parameter *parameter);
void weights_offload_one(struct model *model, struct parameter *parameter);
void weights_release_one(struct model *model, struct parameter *parameter);
