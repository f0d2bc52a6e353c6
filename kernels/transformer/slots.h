// Slots: two places on the device for what comes from the host part by part. The next part is copied into one while
// operations use the other, and what they change goes back. Here are the waits of all who do so, and their order:
// slots_want and slots_asked, slots_get, and as often as something goes back slots_put. Zeroed but for the first
// three, they are ready.
#pragma once
#include "kernels/base/queue.h"

struct slots {
    struct device *device;
    bool far;                // else nothing is copied, and slots are counted alone
    size_t count;            // 2; or 1, where nothing is wanted while something is used
    struct event in[2], out; // of the slots; of what went back last
    size_t wanted, got;
};

// The slot of what is wanted next, while the part before it, which has been got, is used; nothing is read or put
// back any more of the one before that. Copies into it are asked for before slots_asked.
size_t slots_want(struct slots *slots);
void slots_asked(struct slots *slots);
// The slot of what was wanted first of what has not been got: operations may read and write it.
size_t slots_get(struct slots *slots);
// The slot that was got last.
size_t slots_current(const struct slots *slots);
// host = t, of that slot.
void slots_put(struct slots *slots, struct tensor host, struct tensor t);
// The slots can be released.
void slots_close(struct slots *slots);
