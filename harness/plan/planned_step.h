// Planned step: what a step would take, on a device without data: bytes on either side, and the estimate of its
// time; of several ranks of the one that takes most, and until the last is done; of chunks
// that are drawn of the draw that takes most. The arenas' limits end a walk that does not fit where it fails.
#pragma once
#include "harness/step/setup.h"
#include "kernels/device/memo.h"

struct planned_step {
    bool fits; // else `why` says what did not; bad input: the trial's options cannot be
    size_t peak_bytes, peak_by_category[CATEGORY_COUNT], host_peak_bytes;
    double seconds; // all queues; infinite: over a link of no known rate
    double flops;   // of all ranks
    // Of several stages a bound has from here on what they take on average, which is the same however they share
    // the layers out.
    double lower_bound_bytes_per_token;
    size_t tokens;                              // of all rows that are walked
    size_t resident_bytes, host_resident_bytes; // before the step
    size_t lower_bound_bytes; // before the step, and the method's floor: no smaller chunks or blocks take less
    struct status why;
};

#define NO_LIMIT SIZE_MAX
struct planned_limits {
    size_t device_bytes, host_bytes; // or NO_LIMIT
};

// What steps have in common that are planned for one model, device and profile: the cost of their cells, and of
// training runs the data. They may differ in method, places and dtype of dKV, and where none trains in context and
// batch.
struct planned_memos {
    struct memo *steps, *bounds;
    struct train *train; // NULL: not asked for yet
};
void planned_memos_open(struct planned_memos *memos);
void planned_memos_close(struct planned_memos *memos);

// The rates that estimates are made from: the profile's; without one those of a nominal machine that does 100 FLOP
// in the time of a byte, which is enough to choose by.
void planned_roofline(const struct trial *trial, struct roofline *roofline);
// Times that a step may take, as multiples of its estimate.
struct estimate_range {
    double low, high;
    double apart;       // estimates of one card that are further apart tell which step is faster
    const char *source; // "measured rates", "scaled rates" of another card, or of none "nominal rates"
    bool measured;
};
// The range of the trial's estimates: by measured rates that of the steps of the profile's calibration; by scaled
// ones SCALED_LOW and SCALED_HIGH, as far as other cards' shares of their peaks lie apart.
struct estimate_range estimate_range_of(const struct trial *trial);
// Whether the estimates of two steps are further apart than the range: else either may be the faster one.
bool estimates_tell_apart(struct estimate_range range, double a_seconds, double b_seconds);
// Zeroes the gradients, walks, and lets the trial's optimizer take its step. The trial's device may be a real one:
// it is planned for. Ranks are joined by the trial's links; where none are known, by those of a nominal machine if
// the whole machine is one, else what they send takes no time. A training run's bytes are those of all its shapes
// (train_shapes.h), its time that of one micro-batch and an update. options: in place of the trial's own, and
// checked. False and a status if it cannot be planned at all.
bool planned_step(struct planned_step *step, const struct trial *trial, const void *options,
                  struct planned_limits limits, struct planned_memos *memos, struct status *status);
// A lower bound of the same step's seconds and of its device's bytes, sooner. Of the time: nothing waits for a
// copy, nor for a rank that comes late, but where there is no overlap for what ranks exchange; all copies of a
// direction are one, and each operation runs at once over all rows of its cell, instead of in blocks that read the
// weights again. A smaller chunk has no lower bound. Of the bytes: those before the step, and the method's floor
// per token.
bool planned_bound(struct planned_step *bound, const struct trial *trial, const void *options,
                   struct planned_memos *memos, struct status *status);
