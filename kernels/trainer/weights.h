// Weights: storage of a model's parameter values between uses: as they are or, if frozen, quantised; on the device
// or the host; whole on each rank, or in shares (bucket.h). A value stored in another form exists in its usable
// form only while its unit is acquired (unit.h); otherwise it is a shape without a tensor.
#pragma once
#include "kernels/trainer/bucket.h"

// Copies of a unit's weights in transit to the device.
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

// Marks the quantised parameters: the weights of the layers' projections. dequantised: stores their dequantised
// values, for references.
void weights_quantise(struct model *model, enum quantisation quantisation, bool dequantised);
// Allocates the rank's weights in their storage form, uninitialised. Release with weights_close, also after a
// failure.
void weights_open(struct weights *weights, struct model *model, struct buckets *buckets, enum place place);
void weights_close(struct weights *weights);
// Sets weights [first, first + count) of a parameter, row-major, rounded to `rounding`; quantised ones to the
// nearest codes' values, rounded again. Overwrites `values`. first: a multiple of QUANTISATION_WHOLE; count too,
// unless it reaches the end. A rank keeps only its share. The unit must not be acquired.
void weights_write(struct model *model, struct parameter *parameter, size_t first, size_t count, double *values,
                   enum dtype rounding);

// Starts copying the unit's weights from the host, or with overlap gathering them from other ranks' shares, and
// allocates their memory, for the next weights_acquire; from the host also while the unit is acquired.
void weights_prefetch(struct weights *weights, size_t unit);
// Makes its values readable until weights_release.
void weights_acquire(struct weights *weights, size_t unit);
void weights_release(struct weights *weights, size_t unit);
// Frees weights that were prefetched but not acquired.
void weights_settle(struct weights *weights);

// The same steps for one parameter, without waits, for an optimizer (trainer.h): start the copy in; form the value;
// start the copy of an unquantised value back; free the value.
void weights_prefetch_one(struct model *model, struct parameter *parameter);
void weights_acquire_one(struct model *model, struct parameter *parameter);
void weights_offload_one(struct model *model, struct parameter *parameter);
void weights_release_one(struct model *model, struct parameter *parameter);
