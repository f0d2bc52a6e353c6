// Slots: two places on the device for what is kept on the host and used part by part. The next part is prefetched
// into one while operations use the other, and what they change is offloaded. Here are the waits of all who do so,
// and their order: slots_prefetch_begin and slots_prefetch_end, slots_acquire, and as often as something goes back
// slots_offload. Zeroed but for the first three, they are ready.
#pragma once
#include "kernels/device/queue.h"

struct double_buffer {
    struct device *device;
    bool far;                    // else nothing is copied, and buffers are counted alone
    size_t count;                // 2; or 1, where nothing is prefetched while something is used
    struct event in[2], out;     // of the buffers; of what was offloaded last
    size_t prefetched, acquired; // so many times
};

// The buffer of what is acquired next, while the part before it, which has been acquired, is used; nothing is read
// or offloaded any more of the one before that. Copies into it are asked for before slots_prefetch_end.
size_t double_buffer_prefetch_begin(struct double_buffer *buffers);
void double_buffer_prefetch_end(struct double_buffer *buffers);
// Whether something has been prefetched that has not been acquired.
bool double_buffer_is_ahead(const struct double_buffer *buffers);
// The buffer of what was prefetched first of what has not been acquired: operations may read and write it.
size_t double_buffer_acquire(struct double_buffer *buffers);
// The buffer that was acquired last.
size_t double_buffer_current(const struct double_buffer *buffers);
// host = t, of that buffer.
void double_buffer_offload(struct double_buffer *buffers, struct tensor host, struct tensor t);
// The buffers can be released.
void double_buffer_close(struct double_buffer *buffers);
