// Blocks: rows that are worked on block by block, each alike. `for (struct blocks b = blocks_of(...);
// blocks_next(&b);)` goes through them: rows [b.row, b.row + b.count).
#pragma once
#include "kernels/device/memo.h"

struct blocks {
    struct device *device;
    size_t rows, max; // of all, and of each block but the last
    size_t row, count;
    struct counters before; // the first block
};

static inline struct blocks blocks_of(struct device *device, size_t rows, size_t max)
{
    return (struct blocks){.device = device, .rows = rows, .max = max};
}

// False: there are no more, or the device has failed. A device that remembers costs (kernels/device/memo.h) is
// asked for the first block and for a shorter last one; those between are counted like the first.
static inline bool blocks_next(struct blocks *blocks)
{
    struct device *device = blocks->device;
    bool first = blocks->count == 0;
    blocks->row += blocks->count;
    size_t left = blocks->rows - blocks->row;
    if (first && left > blocks->max && memo_is_on(device)) {
        blocks->before = device->counters;
    } else if (blocks->row == blocks->max && blocks->row && left >= blocks->max && memo_is_on(device)) {
        size_t alike = left / blocks->max;
        counters_repeat(&device->counters, &blocks->before, (double)alike);
        blocks->row += alike * blocks->max;
        left -= alike * blocks->max;
    }
    blocks->count = left < blocks->max ? left : blocks->max;
    return left > 0 && device->status.code == STATUS_OK;
}
