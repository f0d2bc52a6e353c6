// Epochs: the order in which a training run takes the items of its data, which it goes through again and again.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct epochs {
    size_t first, count; // items [first, first + count) of the data
    uint64_t shuffle;    // seed of the order, another one in each epoch; 0: that of the data
    size_t epoch;        // whose order is held
    size_t *order;       // [count]; NULL: none is held
};

// The item that comes as number `index`.
size_t epochs_item(struct epochs *epochs, size_t index);
// So many of `count` items a share is, rounded down: of 100 0.29 is 29, though the nearest f64 is below it.
size_t epochs_share(double share, size_t count);
// The last `count` of them, in the data's order; they are no longer among the others, also if some were taken
// before.
struct epochs epochs_split(struct epochs *epochs, size_t count);
void epochs_close(struct epochs *epochs);
