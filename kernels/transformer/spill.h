// Spill: what a walk writes early and reads again late. It is kept on the device as it is; or on the host, where a
// copy brings it as soon as it is written, beside the operations that still read it, and from where another copy
// brings it back, beside those before it is read again. The walk is the same: put and leave; want, get and leave as
// often as it is read; and in place of the last leave, spend.
#pragma once
#include "kernels/base/queue.h"

struct spilled {
    struct tensor near, far; // on the device, and on the host
    struct event out, in;    // it is there; it is back
};

struct spill {
    struct device *device;
    enum place place;
    struct spilled *items;
    size_t count;
};

// Room for `count` tensors, by number. Release with spill_close.
void spill_open(struct spill *spill, struct device *device, enum place place, size_t count);
// Number i is t: all that writes it has been asked for. It can be read until spill_leave.
void spill_put(struct spill *spill, size_t i, struct tensor t);
// Number i is t, which stays on the device until spill_spend: for one that is read at once, and not wanted.
void spill_hold(struct spill *spill, size_t i, struct tensor t);
// Whether number i is there, in whichever place.
bool spill_has(const struct spill *spill, size_t i);
// What was asked for so far is the last to read number i before the next spill_get.
void spill_leave(struct spill *spill, size_t i);
// Number i is wanted soon: it takes its memory on the device from here on.
void spill_want(struct spill *spill, size_t i);
// Number i, to be read until spill_leave or spill_spend.
struct tensor spill_get(struct spill *spill, size_t i);
// Number i has been read for the last time.
void spill_spend(struct spill *spill, size_t i);
// Frees the list, which must be empty: a leak is found by the arenas.
void spill_close(struct spill *spill);
