// Max context: the longest context, or the largest batch, of a method within a memory limit, by planning steps
// until one fits and the next larger does not.
#pragma once
#include "harness/spec/trial.h"

// The value to maximise; the other stays as in the trial.
enum extent { EXTENT_CONTEXT, EXTENT_BATCH };

struct max_context {
    size_t largest;     // tokens of context, or sequences; 0: none
    size_t granularity; // step of the search: 1, the chunk of a method that draws chunks, or 2 for pairs
    size_t peak_bytes, peak_by_category[CATEGORY_COUNT]; // of the step at that extent; 0: none
    size_t host_peak_bytes;                              // of that step
    double lower_bound_bytes_per_token;                  // of that step
    // Over all stages; of a forward pass at that extent. For data ranks the first's.
    double flops, forward_flops;
    bool memory_bound; // the limit is memory rather than the options
    char reason[512];  // why nothing larger, or nothing at all, is possible
    size_t plans;      // number of planned steps
};

// Bytes before any step: weights, gradients, optimizer state, and memory kept by the device's libraries. Returns
// false and a status if it cannot be planned (unsupported: the device lacks the dtype).
bool max_context_resident(const struct trial *trial, size_t by_category[CATEGORY_COUNT], struct status *status);
// The extent's unit for any method: 2 for a batch of pairs; and the same for each data rank.
size_t extent_unit(const struct trial *trial, enum extent extent);
// Ignores the trial's own extent; the device must have no data. A method that draws chunks is planned for its
// largest draw (method.h), over contexts of whole chunks. from: a start value, such as a quarter of the expected
// result; 0: the minimum.
bool max_context_find(struct max_context *result, const struct trial *trial, enum extent extent, size_t limit_bytes,
                      size_t from, struct status *status);
