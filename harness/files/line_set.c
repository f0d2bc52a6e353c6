#include "harness/files/line_set.h"
#include <stdlib.h>
#include <xxhash.h>

// Finds the slot of the hash, or the free slot for it.
static uint64_t *place_of(const struct line_set *set, uint64_t hash)
{
    size_t at = hash & (set->capacity - 1);
    while (set->hashes[at] && set->hashes[at] != hash)
        at = (at + 1) & (set->capacity - 1);
    return &set->hashes[at];
}

static void grow(struct line_set *set)
{
    uint64_t *before = set->hashes;
    size_t places = set->capacity;
    set->capacity = places ? 2 * places : 64;
    set->hashes = calloc(set->capacity, sizeof *set->hashes);
    for (size_t i = 0; i < places; i++)
        if (before[i])
            *place_of(set, before[i]) = before[i];
    free(before);
}

bool line_set_add(struct line_set *set, const char *text, size_t bytes)
{
    uint64_t hash = XXH3_64bits(text, bytes);
    hash += !hash; // 0 is free
    if (4 * set->count >= 3 * set->capacity)
        grow(set);
    uint64_t *place = place_of(set, hash);
    bool added = !*place;
    *place = hash;
    set->count += added;
    return added;
}

void line_set_free(struct line_set *set)
{
    free(set->hashes);
    *set = (struct line_set){0};
}
