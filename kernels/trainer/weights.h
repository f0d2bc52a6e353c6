// Weights: how and where the values of a model's parameters are kept between uses: as they are, or those that do
// not train quantised; on the device or on the host; by each of several ranks, or in shares (bucket.h). A value
// that is kept otherwise than it is used is there as it is used only while its unit is acquired (unit.h); in
// between it is no tensor, but for its shape.
#pragma once
#include "kernels/trainer/bucket.h"

// Copies of a unit's weights that are on their way to the device.
struct fetch {
    bool prefetched;
    struct event in;
};

struct weights {
    struct model *model;
    struct buckets *buckets;
    enum place place;
    struct fetch *fetches; // by unit
};

// Which of a model's parameters are quantised: the weights of its layers' projections. dequantised: they are kept
// as what the codes stand for: a reference.
void weights_quantise(struct model *model, enum quantisation quantisation, bool dequantised);
// Allocates the rank's weights in the form that they are kept in, not yet set. Release with weights_close, also
// after a failure.
void weights_open(struct weights *weights, struct model *model, struct buckets *buckets, enum place place);
void weights_close(struct weights *weights);
// Sets weights [first, first + count) of a parameter, in row-major order, to the values, rounded to `rounding`;
// where they are quantised to what the nearest codes stand for, rounded again. The values are spent. first: a
// multiple of QUANTISATION_BLOCK; count too, unless it reaches the end. A rank with a share of
// them keeps those of its share alone. The unit must not be acquired.
void weights_write(struct model *model, struct parameter *parameter, size_t first, size_t count, double *values,
                   enum dtype rounding);

// The unit's weights are on their way from the host, or with overlap from the ranks that have shares of them, from
// here on, and take their memory, for the next weights_acquire; of the host's also while the unit is acquired.
void weights_prefetch(struct weights *weights, size_t unit);
// Its values can be read from here to weights_release.
void weights_acquire(struct weights *weights, size_t unit);
void weights_release(struct weights *weights, size_t unit);
// Frees those that were prefetched and not acquired.
void weights_settle(struct weights *weights);

// The steps of these for one parameter, without their waits, for an optimizer (trainer.h): ask for the copy in;
// make the value of it; ask for the copy of the value back, where it is not quantised; free the value.
void weights_prefetch_one(struct model *model, struct parameter *parameter);
void weights_acquire_one(struct model *model, struct parameter *parameter);
void weights_offload_one(struct model *model, struct parameter *parameter);
void weights_release_one(struct model *model, struct parameter *parameter);
