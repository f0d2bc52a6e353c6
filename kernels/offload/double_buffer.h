// Double buffer: two places on the device for data kept on the host and used part by part. The next part is
// prefetched into one while operations use the other, and changes are offloaded. This file has the necessary waits
// and their order: double_buffer_prefetch_begin and double_buffer_prefetch_end, double_buffer_acquire, and for each
// write back double_buffer_offload. Zeroed except the first three members, it is ready.
#pragma once
#include "kernels/device/queue.h"

struct double_buffer {
    struct device *device;
    bool copies;                 // else nothing is copied, and buffers are counted alone
    size_t count;                // 2; or 1 without prefetch during use
    struct event in[2], out;     // of each buffer's copy in; of the latest offload
    size_t prefetched, acquired; // numbers of calls
};

// The buffer for the next part, while the acquired part is in use; the part before that is no longer read or
// offloaded. Issue copies into it before double_buffer_prefetch_end.
size_t double_buffer_prefetch_begin(struct double_buffer *buffers);
void double_buffer_prefetch_end(struct double_buffer *buffers);
// Tells whether something has been prefetched but not acquired.
bool double_buffer_is_ahead(const struct double_buffer *buffers);
// The buffer of the oldest prefetched part; operations may read and write it.
size_t double_buffer_acquire(struct double_buffer *buffers);
// The buffer acquired last.
size_t double_buffer_current(const struct double_buffer *buffers);
// host = t, in that buffer.
void double_buffer_offload(struct double_buffer *buffers, struct tensor host, struct tensor t);
// Waits, so that the buffers can be released.
void double_buffer_close(struct double_buffer *buffers);
