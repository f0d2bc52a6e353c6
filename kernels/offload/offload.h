// Offload: tensors that a schedule writes early and reads again late. A tensor stays on the device, or is offloaded
// to the host when written, concurrently with operations that still read it, and prefetched before it is read
// again. Calls are the same in both cases: put and release; prefetch, acquire and release for each read; free
// instead of the last release.
#pragma once
#include "kernels/device/queue.h"

struct offloaded_tensor {
    struct tensor staged, host; // on the device, and on the host
    struct event out, in;       // copied out; copied in
};

struct offload {
    struct device *device;
    enum place place;
    struct offloaded_tensor *items;
    size_t count;
};

// Allocates a list of `count` tensors, by number. Release with offload_close.
void offload_open(struct offload *offload, struct device *device, enum place place, size_t count);
// Stores t as number i, after its writes have been issued. It can be read until offload_release.
void offload_put(struct offload *offload, size_t i, struct tensor t);
// Stores t as number i and keeps it on the device until offload_free: for tensors that are read at once without
// prefetch.
void offload_hold(struct offload *offload, size_t i, struct tensor t);
// Tells whether number i is stored, in either place.
bool offload_has(const struct offload *offload, size_t i);
// Marks the end of reads of number i until the next offload_acquire.
void offload_release(struct offload *offload, size_t i);
// Announces that number i will be acquired: allocates its device memory.
void offload_prefetch(struct offload *offload, size_t i);
// Number i, readable until offload_release or offload_free.
struct tensor offload_acquire(struct offload *offload, size_t i);
// Frees number i after its last read.
void offload_free(struct offload *offload, size_t i);
// Frees the list, which must be empty: arenas report leaks.
void offload_close(struct offload *offload);
