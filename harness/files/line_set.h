// Line set: the lines of result files already read, as hashes.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Zeroed: empty.
struct line_set {
    size_t count, capacity;
    uint64_t *hashes; // [capacity], a hash table; 0: free
};

// Adds a line, given without its newline. Returns whether it is new.
bool line_set_add(struct line_set *set, const char *text, size_t bytes);
void line_set_free(struct line_set *set);
