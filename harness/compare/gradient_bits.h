// Gradient bits: whether two records of one trial have the same gradients to the last bit, by their hashes.
#pragma once
#include "harness/record/record.h"

// Bits depend on these besides the program's own code, in bits of struct gradient_bits: keys of a record and of its
// provenance.
#define GRADIENT_BITS_CAUSES 9
extern const char *const gradient_bits_causes[GRADIENT_BITS_CAUSES];

struct gradient_bits {
    bool known;           // both records have hashes, and of a device whose bits are the same in every run
    size_t tensors;       // of the base record
    size_t changed;       // of them; 0: all bits are the same
    const char *first;    // name of the first that changed, in the model's order, borrowed; NULL: none
    unsigned long causes; // bit i: cause i is not the same in both
};

// The CPU's bits are the same in every run, and another device's where the trial asks for it (`deterministic`).
struct gradient_bits gradient_bits_compare(const struct record *base, const struct record *new);
