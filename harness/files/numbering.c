#include "harness/files/numbering.h"
#include "kernels/base/status.h"
#include <stdlib.h>
#include <xxhash.h>

struct numbered {
    XXH128_hash_t hash;
    size_t after; // the key's number and 1; 0: free
};

// The slot that holds the hash, or the free slot for it.
static struct numbered *place_of(const struct numbering *numbering, XXH128_hash_t hash)
{
    size_t mask = numbering->capacity - 1, at = hash.low64 & mask;
    while (numbering->items[at].after && !XXH128_isEqual(numbering->items[at].hash, hash))
        at = (at + 1) & mask;
    return &numbering->items[at];
}

static void grow(struct numbering *numbering)
{
    struct numbering grown = {.count = numbering->count,
                              .capacity = numbering->capacity ? 2 * numbering->capacity : 64};
    grown.items = calloc(grown.capacity, sizeof *grown.items);
    CHECK(grown.items);
    for (size_t i = 0; i < numbering->capacity; i++)
        if (numbering->items[i].after)
            *place_of(&grown, numbering->items[i].hash) = numbering->items[i];
    free(numbering->items);
    *numbering = grown;
}

size_t numbering_of(struct numbering *numbering, const void *key, size_t bytes)
{
    XXH128_hash_t hash = XXH3_128bits(key, bytes);
    if (4 * numbering->count >= 3 * numbering->capacity)
        grow(numbering);
    struct numbered *place = place_of(numbering, hash);
    if (!place->after)
        *place = (struct numbered){hash, ++numbering->count};
    return place->after - 1;
}

void numbering_free(struct numbering *numbering)
{
    free(numbering->items);
    *numbering = (struct numbering){0};
}
