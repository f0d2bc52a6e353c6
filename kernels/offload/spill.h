// Spill: what a walk writes early and reads again late. It is kept on the device as it is; or offloaded to the host
// as soon as it is written, beside the operations that still read it, and prefetched from there, beside those
// before it is read again. The walk is the same: offload and release; prefetch, acquire and release as often as it
// is read; and in place of the last release, free.
#pragma once
#include "kernels/device/queue.h"

struct spilled {
    struct tensor near, far; // on the device, and on the host
    struct event out, in;    // it is offloaded; it is prefetched
};

struct spill {
    struct device *device;
    enum place place;
    struct spilled *items;
    size_t count;
};

// Room for `count` tensors, by number. Release with spill_close.
void spill_open(struct spill *spill, struct device *device, enum place place, size_t count);
// Number i is t: all that writes it has been asked for. It can be read until spill_release.
void spill_offload(struct spill *spill, size_t i, struct tensor t);
// Number i is t, which stays on the device until spill_free: for one that is read at once, and not
// prefetched.
void spill_hold(struct spill *spill, size_t i, struct tensor t);
// Whether number i is there, in whichever place.
bool spill_has(const struct spill *spill, size_t i);
// What was asked for so far is the last to read number i before the next spill_acquire.
void spill_release(struct spill *spill, size_t i);
// Number i is acquired soon: it takes its memory on the device from here on.
void spill_prefetch(struct spill *spill, size_t i);
// Number i, to be read until spill_release or spill_free.
struct tensor spill_acquire(struct spill *spill, size_t i);
// Number i has been read for the last time.
void spill_free(struct spill *spill, size_t i);
// Frees the list, which must be empty: a leak is found by the arenas.
void spill_close(struct spill *spill);
