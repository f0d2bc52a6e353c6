// Slots: two places on the device for what is kept on the host and used part by part. The next part is prefetched
// into one while operations use the other, and what they change is offloaded. Here are the waits of all who do so,
// and their order: slots_prefetch_begin and slots_prefetch_end, slots_acquire, and as often as something goes back
// slots_offload. Zeroed but for the first three, they are ready.
#pragma once
#include "kernels/device/queue.h"

struct slots {
    struct device *device;
    bool far;                    // else nothing is copied, and slots are counted alone
    size_t count;                // 2; or 1, where nothing is prefetched while something is used
    struct event in[2], out;     // of the slots; of what was offloaded last
    size_t prefetched, acquired; // so many times
};

// The slot of what is acquired next, while the part before it, which has been acquired, is used; nothing is read or
// offloaded any more of the one before that. Copies into it are asked for before slots_prefetch_end.
size_t slots_prefetch_begin(struct slots *slots);
void slots_prefetch_end(struct slots *slots);
// Whether something has been prefetched that has not been acquired.
bool slots_are_ahead(const struct slots *slots);
// The slot of what was prefetched first of what has not been acquired: operations may read and write it.
size_t slots_acquire(struct slots *slots);
// The slot that was acquired last.
size_t slots_current(const struct slots *slots);
// host = t, of that slot.
void slots_offload(struct slots *slots, struct tensor host, struct tensor t);
// The slots can be released.
void slots_close(struct slots *slots);
