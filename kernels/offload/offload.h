// Offload: what a walk writes early and reads again late. It is kept on the device as it is; or offloaded to the
// host as soon as it is written, beside the operations that still read it, and prefetched from there, beside those
// before it is read again. The walk is the same: offload and release; prefetch, acquire and release as often as it
// is read; and in place of the last release, free.
#pragma once
#include "kernels/device/queue.h"

struct offloaded_tensor {
    struct tensor near, far; // on the device, and on the host
    struct event out, in;    // it is offloaded; it is prefetched
};

struct offload {
    struct device *device;
    enum place place;
    struct offloaded_tensor *items;
    size_t count;
};

// Room for `count` tensors, by number. Release with spill_close.
void offload_open(struct offload *offload, struct device *device, enum place place, size_t count);
// Number i is t: all that writes it has been asked for. It can be read until spill_release.
void offload_put(struct offload *offload, size_t i, struct tensor t);
// Number i is t, which stays on the device until spill_free: for one that is read at once, and not
// prefetched.
void offload_hold(struct offload *offload, size_t i, struct tensor t);
// Whether number i is there, in whichever place.
bool offload_has(const struct offload *offload, size_t i);
// What was asked for so far is the last to read number i before the next spill_acquire.
void offload_release(struct offload *offload, size_t i);
// Number i is acquired soon: it takes its memory on the device from here on.
void offload_prefetch(struct offload *offload, size_t i);
// Number i, to be read until spill_release or spill_free.
struct tensor offload_acquire(struct offload *offload, size_t i);
// Number i has been read for the last time.
void offload_free(struct offload *offload, size_t i);
// Frees the list, which must be empty: a leak is found by the arenas.
void offload_close(struct offload *offload);
