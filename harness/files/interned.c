#include "harness/files/interned.h"
#include "kernels/base/status.h"
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#define BLOCK_BYTES ((size_t)1 << 16)

struct interned_item {
    uint32_t hash, bytes;
    json_t *json; // NULL: not asked for
    char text[];
};

struct block {
    struct block *before;
    char data[];
};

static void *take(struct interned *interned, size_t bytes)
{
    bytes = (bytes + _Alignof(struct interned_item) - 1) / _Alignof(struct interned_item) *
            _Alignof(struct interned_item);
    if (bytes > interned->left) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        struct block *block = malloc(sizeof *block + size);
        CHECK(block);
        block->before = interned->blocks;
        interned->blocks = block;
        interned->left = size;
    }
    // From the end, so that what is left is all that need be known.
    interned->left -= bytes;
    return ((struct block *)interned->blocks)->data + interned->left;
}

// Where the text is, or is to be.
static struct interned_item **place_of(const struct interned *interned, uint32_t hash, const char *text,
                                       size_t bytes)
{
    size_t at = hash % interned->capacity;
    for (; interned->items[at]; at = (at + 1) % interned->capacity) {
        const struct interned_item *item = interned->items[at];
        if (item->hash == hash && item->bytes == bytes && memcmp(item->text, text, bytes) == 0)
            break;
    }
    return &interned->items[at];
}

static void grow(struct interned *interned)
{
    struct interned grown = {.capacity = interned->capacity ? 2 * interned->capacity : 256};
    grown.items = calloc(grown.capacity, sizeof(struct interned_item *));
    CHECK(grown.items);
    for (size_t i = 0; i < interned->capacity; i++) {
        struct interned_item *item = interned->items[i];
        if (item)
            *place_of(&grown, item->hash, item->text, item->bytes) = item;
    }
    free(interned->items);
    interned->items = grown.items;
    interned->capacity = grown.capacity;
}

struct interned_item *interned_item(struct interned *interned, const char *text, size_t bytes)
{
    CHECK(bytes <= UINT32_MAX);
    uint32_t hash = (uint32_t)XXH3_64bits(text, bytes);
    if (4 * interned->count >= 3 * interned->capacity)
        grow(interned);
    struct interned_item **place = place_of(interned, hash, text, bytes);
    if (!*place) {
        struct interned_item *item = take(interned, sizeof *item + bytes + 1);
        *item = (struct interned_item){.hash = hash, .bytes = (uint32_t)bytes};
        memcpy(item->text, text, bytes);
        item->text[bytes] = '\0';
        *place = item;
        interned->count++;
    }
    return *place;
}

const char *interned_text(struct interned *interned, const char *text, size_t bytes)
{
    return interned_item(interned, text, bytes)->text;
}

const json_t *interned_item_json(struct interned_item *item)
{
    if (!item->json)
        item->json = json_loadb(item->text, item->bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    return item->json;
}

const json_t *interned_json(struct interned *interned, const char *text, size_t bytes)
{
    return interned_item_json(interned_item(interned, text, bytes));
}

void interned_free(struct interned *interned)
{
    for (size_t i = 0; i < interned->capacity; i++)
        if (interned->items[i])
            json_decref(interned->items[i]->json);
    for (struct block *block = interned->blocks, *before; block; block = before) {
        before = block->before;
        free(block);
    }
    free(interned->items);
    *interned = (struct interned){0};
}
