// Line set: which lines of result files were read before, by a hash of each.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Zeroed: empty.
struct line_set {
    size_t count, capacity;
    uint64_t *hashes; // [capacity], a hash table; 0: free
};

// Whether it is new, without its newline.
bool line_set_add(struct line_set *set, const char *text, size_t bytes);
void line_set_free(struct line_set *set);
