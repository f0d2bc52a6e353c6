// Memo: what a sequence of operations costs on a device without data, by all that its cost depends on. A search
// plans thousands of steps that consist of the same few cells; each is then asked for once, and counted as often as
// it comes. Sums are rounded in another order than operation by operation.
#pragma once
#include "kernels/device/device.h"

struct memo;
struct memo *memo_new(void);
void memo_free(struct memo *memo); // NULL is fine

// Whether the device has a memo, and nobody looks on at it.
static inline bool memo_is_on(const struct device *device)
{
    return device->memo && device->status.code == STATUS_OK && !device->observers && !device->arena.timeline_on;
}
// Counts what was counted since `before` so many times more.
void counters_repeat(struct counters *counters, const struct counters *before, double times);

// One use, from memo_begin to memo_end.
struct memo_use {
    struct memo_entry *entry; // that is being made; NULL: nothing is
    struct counters counters; // before
    size_t peak_bytes, peak_by_category[CATEGORY_COUNT];
    uint64_t recorded;
    const void *outcome; // of a sequence that is known: what memo_end was given
};

// A device whose memo is not on knows nothing. key: `bytes` bytes that tell this sequence from all others on the
// device's model; they are copied. True: it is known, and has been counted as if it
// had run, its scratch with it; what it leaves in memory is the caller's to make so. False: it is to be run, and
// memo_end called. It may use no queue but QUEUE_COMPUTE, and no event. One that does not fit into what is left of
// the arena is not known: it is to end where it ends.
bool memo_begin(struct device *device, struct memo_use *use, const void *key, size_t bytes);
// outcome: what the caller wants to know when the sequence is known; kept once for all that have the same.
void memo_end(struct device *device, struct memo_use *use, const void *outcome, size_t bytes);
