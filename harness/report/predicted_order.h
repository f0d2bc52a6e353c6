// Predicted order: whether trials that differ in their times were predicted to, the right way round.
#pragma once
#include <stddef.h>

struct predicted_time {
    double measured_ms, estimate_ms;
};

// Pairs of them whose measured times differ by this factor or more; and those of which the slower one was not
// predicted to be the slower.
struct predicted_order {
    size_t pairs, reversed;
};
// All times finite and > 0, apart > 1. Sorts the times by what was measured.
struct predicted_order predicted_order_of(struct predicted_time *times, size_t count, double apart);
