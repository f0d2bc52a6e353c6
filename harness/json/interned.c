#include "harness/json/interned.h"
#include "kernels/base/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#define BLOCK_BYTES ((size_t)1 << 16)

// An item whose JSON value can be requested has a json_t * before it, NULL until then.
struct interned_item {
    uint32_t hash;
    uint32_t bytes : 31, has_value : 1;
    char text[];
};

static json_t **value_of(struct interned_item *item)
{
    return (json_t **)(void *)item - 1;
}

struct block {
    struct block *before;
    char data[];
};

static void *take(struct interned *interned, size_t bytes)
{
    bytes = (bytes + _Alignof(double) - 1) / _Alignof(double) * _Alignof(double);
    if (bytes > interned->left) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        struct block *block = malloc(sizeof *block + size);
        block->before = interned->blocks;
        interned->blocks = block;
        interned->left = size;
    }
    // Allocates from the end, so that the bytes left are the only state.
    interned->left -= bytes;
    return ((struct block *)interned->blocks)->data + interned->left;
}

// Finds the slot of the text, or the free slot for it.
static struct interned_item **place_of(const struct interned *interned, uint32_t hash, const char *text,
                                       size_t bytes, bool has_value)
{
    size_t at = hash % interned->capacity;
    for (; interned->items[at]; at = (at + 1) % interned->capacity) {
        const struct interned_item *item = interned->items[at];
        if (item->hash == hash && item->bytes == bytes && item->has_value == has_value &&
            memcmp(item->text, text, bytes) == 0)
            break;
    }
    return &interned->items[at];
}

static void grow(struct interned *interned)
{
    struct interned grown = {.capacity = interned->capacity ? 2 * interned->capacity : 256};
    grown.items = calloc(grown.capacity, sizeof(struct interned_item *));
    for (size_t i = 0; i < interned->capacity; i++) {
        struct interned_item *item = interned->items[i];
        if (item)
            *place_of(&grown, item->hash, item->text, item->bytes, item->has_value) = item;
    }
    free(interned->items);
    interned->items = grown.items;
    interned->capacity = grown.capacity;
}

static struct interned_item *item_of(struct interned *interned, const char *text, size_t bytes, bool has_value)
{
    CHECK(bytes <= INT32_MAX);
    uint32_t hash = (uint32_t)XXH3_64bits(text, bytes);
    if (4 * interned->count >= 3 * interned->capacity)
        grow(interned);
    struct interned_item **place = place_of(interned, hash, text, bytes, has_value);
    if (!*place) {
        size_t before = has_value * sizeof(json_t *);
        struct interned_item *item = (void *)((char *)take(interned, before + sizeof *item + bytes + 1) + before);
        *item = (struct interned_item){.hash = hash, .bytes = (uint32_t)bytes & INT32_MAX, .has_value = has_value};
        if (has_value)
            *value_of(item) = NULL;
        memcpy(item->text, text, bytes);
        item->text[bytes] = '\0';
        *place = item;
        interned->count++;
    }
    return *place;
}

const char *interned_text(struct interned *interned, const char *text, size_t bytes)
{
    return item_of(interned, text, bytes, false)->text;
}

struct interned_item *interned_item(struct interned *interned, const char *text, size_t bytes)
{
    return item_of(interned, text, bytes, true);
}

const json_t *interned_item_json(struct interned_item *item)
{
    json_t **value = value_of(item);
    if (!*value)
        *value = json_loadb(item->text, item->bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    return *value;
}

const json_t *interned_json(struct interned *interned, const char *text, size_t bytes)
{
    return interned_item_json(interned_item(interned, text, bytes));
}

void interned_finish(struct interned *interned)
{
    size_t count = 0;
    for (size_t i = 0; i < interned->capacity; i++)
        if (interned->items[i] && interned->items[i]->has_value)
            interned->items[count++] = interned->items[i];
    interned->items = realloc(interned->items, (count + 1) * sizeof(struct interned_item *));
    interned->capacity = count;
}

void interned_free(struct interned *interned)
{
    for (size_t i = 0; i < interned->capacity; i++)
        if (interned->items[i] && interned->items[i]->has_value)
            json_decref(*value_of(interned->items[i]));
    for (struct block *block = interned->blocks, *before; block; block = before) {
        before = block->before;
        free(block);
    }
    free(interned->items);
    *interned = (struct interned){0};
}
