// Planned step: a step on a device without data: bytes on device and host, and an estimated time; for ranks the
// maximum bytes, and the time until the last is done; for drawn chunks the largest draw. The arenas' limits end a
// step that does not fit where it fails.
#pragma once
#include "harness/step/setup.h"
#include "kernels/device/memo.h"

struct planned_step {
    bool fits; // otherwise `why` has the reason; bad input: the trial's options are impossible
    size_t peak_bytes, peak_by_category[CATEGORY_COUNT], host_peak_bytes;
    double seconds; // of all queues; infinite: over a link of unknown rate
    double flops;   // of all ranks
    // In a bound over several stages, the following are averages, which are the same however layers are divided.
    double lower_bound_bytes_per_token;
    double further_bytes_per_token;             // in a bound: of a token beyond the context, up to twice as many
    size_t tokens;                              // of all rows of the step
    size_t resident_bytes, host_resident_bytes; // before the step
    size_t
        lower_bound_bytes; // before the step, plus the method's lower bound: smaller chunks or blocks do not help
    struct status why;
};

#define NO_LIMIT SIZE_MAX
struct planned_limits {
    size_t device_bytes, host_bytes; // or NO_LIMIT
};

// Cached costs of cells, and data of training runs, for planning steps of one model, device and profile. Steps may
// differ in method, offload targets and dtype of dKV and, without training, in context and batch.
struct planned_memos {
    struct memo *steps, *bounds;
    struct train *train; // NULL: not used yet
};
void planned_memos_open(struct planned_memos *memos);
void planned_memos_close(struct planned_memos *memos);

// The rates of estimates: the profile's; without one those of a nominal machine with 100 FLOPs per byte, which
// suffice for choosing.
void planned_roofline(const struct trial *trial, struct roofline *roofline);
// The range of a step's time, as multiples of its estimate.
struct estimate_range {
    double low, high;
    double apart;       // estimates of one card further apart than this are distinguishable
    const char *source; // "measured rates", "scaled rates" of another card, or without either "nominal rates"
    bool measured;
};
// The range of the trial's estimates: with measured rates that of the profile's calibration steps; with scaled ones
// SCALED_LOW and SCALED_HIGH, the spread of other cards' shares of their peaks.
struct estimate_range estimate_range_of(const struct trial *trial);
// Tells whether the estimates of two steps are further apart than the range; otherwise either may be faster.
bool estimates_tell_apart(struct estimate_range range, double a_seconds, double b_seconds);
// Plans a step: zeroes the gradients, runs the method and the trial's optimizer. The trial's device may be a real
// one, for which it plans. Ranks use the trial's interconnect; if unknown, that of a nominal machine if the whole
// machine is nominal, otherwise communication takes no time. A training run's bytes cover all its shapes
// (train_shapes.h), its time one micro-batch and an update. options: replace the trial's, already checked. Returns
// false and a status if it cannot be planned.
bool planned_step(struct planned_step *step, const struct trial *trial, const void *options,
                  struct planned_limits limits, struct planned_memos *memos, struct status *status);
// A faster lower bound of the step's seconds and device bytes. Time: no operation waits for copies or for late
// ranks, except communication without overlap; all copies of a direction count as one, and each operation runs at
// once over all rows of its cell instead of in blocks that read the weights again. Smaller chunks have no smaller
// bound. Bytes: those before the step, plus the method's lower bound per token.
bool planned_bound(struct planned_step *bound, const struct trial *trial, const void *options,
                   struct planned_memos *memos, struct status *status);
