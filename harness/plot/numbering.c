#include "harness/plot/numbering.h"
#include "kernels/base/status.h"
#include <stdlib.h>
#include <xxhash.h>

struct numbered {
    XXH128_hash_t hash;
    size_t after; // the key's number and 1; 0: free
};

// The slot that holds the hash, or the free slot for it. capacity: a power of two.
static struct numbered *place_of(struct numbered *items, size_t capacity, XXH128_hash_t hash)
{
    size_t at = hash.low64 & (capacity - 1);
    while (items[at].after && !XXH128_isEqual(items[at].hash, hash))
        at = (at + 1) & (capacity - 1);
    return &items[at];
}

static void grow(struct numbering *numbering)
{
    size_t capacity = numbering->capacity ? 2 * numbering->capacity : 64;
    struct numbered *items = calloc(capacity, sizeof *items);
    CHECK(items);
    for (size_t i = 0; i < numbering->capacity; i++)
        if (numbering->items[i].after)
            *place_of(items, capacity, numbering->items[i].hash) = numbering->items[i];
    free(numbering->items);
    numbering->items = items;
    numbering->capacity = capacity;
}

size_t numbering_of(struct numbering *numbering, const void *key, size_t bytes)
{
    XXH128_hash_t hash = XXH3_128bits(key, bytes);
    if (4 * numbering->count >= 3 * numbering->capacity)
        grow(numbering);
    struct numbered *place = place_of(numbering->items, numbering->capacity, hash);
    if (!place->after)
        *place = (struct numbered){hash, ++numbering->count};
    return place->after - 1;
}

void numbering_free(struct numbering *numbering)
{
    free(numbering->items);
    *numbering = (struct numbering){0};
}
