// Numbering: keys, each with the number of different keys that were met before it.
#pragma once
#include <stddef.h>

// Zeroed: empty.
struct numbering {
    size_t count, capacity;
    struct numbered *items; // [capacity], a hash table
};

// The number of a key of so many bytes; a new key's is the count before. Keys are told apart by hashes of 128 bits.
size_t numbering_of(struct numbering *numbering, const void *key, size_t bytes);
void numbering_free(struct numbering *numbering);
