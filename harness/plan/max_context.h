// Max context: the longest context, or the largest batch, that a method can hold in so many bytes, by planning
// steps until one fits and the next longer one does not.
#pragma once
#include "harness/spec/trial.h"

// What is to be as large as can be, the other as the trial has it.
enum extent { EXTENT_CONTEXT, EXTENT_BATCH };

struct max_context {
    size_t largest;     // tokens of context, or sequences; 0: none
    size_t granularity; // it is a multiple of this: 1, the chunk of a method that draws chunks, or of pairs 2
    size_t peak_bytes, peak_by_category[CATEGORY_COUNT]; // of the step at that context; 0: none
    size_t host_peak_bytes;                              // of that step
    double lower_bound_bytes_per_token;                  // of that step
    // Counted, of all stages; of a forward pass at that context. Of data ranks the first's.
    double flops, forward_flops;
    bool memory_bound; // it is memory, and not what the options allow, that nothing longer goes for
    char reason[512];  // why nothing longer, or nothing at all, goes
    size_t plans;      // steps planned to find it
};

// What is taken before any step: weights, gradients, the optimizer's state, what the device's libraries keep. False
// and a status if it cannot be planned at all (unsupported: the device has no such dtype).
bool max_context_resident(const struct trial *trial, size_t by_category[CATEGORY_COUNT], struct status *status);
// What the extent is a multiple of, whatever the method: of a batch of pairs 2; and as many for each data rank.
size_t extent_unit(const struct trial *trial, enum extent extent);
// The trial's own value of the extent does not matter; it must be on a device without data. A method that draws
// chunks is planned for the largest draw (method.h), over contexts of whole chunks. from: where to begin, such as
// a quarter of what is expected; 0: at the least.
bool max_context_find(struct max_context *result, const struct trial *trial, enum extent extent, size_t limit_bytes,
                      size_t from, struct status *status);
