// Epochs: the order in which a training run repeatedly visits the items of its data.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct epochs {
    size_t first, count; // items [first, first + count) of the data
    uint64_t shuffle;    // seed of the order, which differs in each epoch; 0: the data's order
    size_t epoch;        // the epoch whose order is held
    size_t *order;       // [count]; NULL: none is held
};

// The data item at position `index` of the run.
size_t epochs_item(struct epochs *epochs, size_t index);
// A share of `count` items, rounded down: 0.29 of 100 is 29, though the nearest f64 is below it.
size_t epochs_share(double share, size_t count);
// Splits off the last `count` items, in the data's order, also if some were split off before.
struct epochs epochs_split(struct epochs *epochs, size_t count);
void epochs_close(struct epochs *epochs);
