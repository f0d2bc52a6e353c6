// Memo: caches the cost of operation sequences on a device without data, by everything that the cost depends on. A
// search plans thousands of steps of the same few cells; each distinct cell is run once and counted as often as it
// occurs. Sums are rounded in another order than operation by operation.
#pragma once
#include "kernels/device/device.h"

struct memo;
struct memo *memo_new(void);
void memo_free(struct memo *memo); // NULL is fine

// Tells whether the device has a memo and no observer.
static inline bool memo_is_on(const struct device *device)
{
    return device->memo && device->status.code == STATUS_OK && !device->observers && !device->arena.timeline_on;
}
// Adds what was counted since `before` another `times` times.
void counters_repeat(struct counters *counters, const struct counters *before, double times);

// One lookup, from memo_begin to memo_end.
struct memo_use {
    struct memo_entry *entry; // being recorded; NULL: none
    struct counters counters; // before
    size_t peak_bytes, peak_by_category[CATEGORY_COUNT];
    uint64_t recorded;
    const void *outcome; // of a known sequence: the outcome passed to memo_end
};

// Looks up a sequence. key: `bytes` bytes that identify it on the device's model; copied. Returns true if it is
// known: its cost and scratch memory have been counted as if it had run, and the caller allocates what it leaves in
// memory. Returns false if it must run, followed by memo_end. It may use no queue but QUEUE_COMPUTE and no event. A
// sequence that does not fit the arena's remaining memory counts as unknown, so that it fails where it would. Does
// nothing if the memo is off.
bool memo_begin(struct device *device, struct memo_use *use, const void *key, size_t bytes);
// outcome: returned for the known sequence; equal outcomes are stored once.
void memo_end(struct device *device, struct memo_use *use, const void *outcome, size_t bytes);
